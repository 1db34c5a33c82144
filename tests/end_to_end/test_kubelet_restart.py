"""Kubelet restarts while jobs run: the real scheduler, attribution and sampler, over a real gRPC server."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ofu_exporter import sources
from ofu_exporter.agent.attribution import Attribution, Polling
from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.sampler import Sampler, SamplingPlan
from ofu_exporter.schedulers.kubernetes import driver, kubelet_restart
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.doubles.kubelet import GPU, Kubelet, Message, given, pod
from tests.helpers.agent import until

pytestmark = pytest.mark.slow


class PodNode:
    """A node with two simulated GPUs and kubelet, and the parts of an agent that credit jobs."""

    def __init__(self, folder: Path) -> None:
        self.kubelet = Kubelet(folder / "kubelet.sock")
        self.kubelet.start()
        options = driver.Options.model_validate(
            {
                "kubelet_socket": self.kubelet.path,
                "kubernetes_poll": 0.5,
                "kubernetes_metadata": "off",
            }
        )
        self.snapshots: list[Snapshot] = []
        polling = Polling([(driver.NAME, partial(driver.Scheduler, options))], max_age=300.0)
        self.attribution = Attribution(polling, time.monotonic)
        simulate = sources.load("simulate")
        source = partial(simulate.Source, simulate.Options(), time.monotonic)
        plan = SamplingPlan([("simulate", source)], SamplingPace(0.2, 0.2))
        self.sampler = Sampler(plan, self.snapshots.append, time.monotonic, self.attribution)
        self.attribution.start(self.sampler.cut)
        self.sampler.start()

    def stop(self) -> None:
        self.sampler.stop()
        self.attribution.stop()
        self.kubelet.stop()

    def job(self, name: str) -> JobView | None:
        if not self.snapshots:
            return None
        jobs = self.snapshots[-1].jobs
        return next((view for view in jobs if view.job.job_id == f"ns/{name}"), None)

    def observed(self, name: str) -> float:
        view = self.job(name)
        return view.observed_seconds if view else 0.0

    def is_up(self) -> bool:
        return self.snapshots[-1].schedulers[0].up


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[PodNode]:
    monkeypatch.setattr(kubelet_restart, "SETTLE_SECONDS", 2.0)
    with tempfile.TemporaryDirectory(prefix="ofu-") as name:
        node = PodNode(Path(name))
        try:
            yield node
        finally:
            node.stop()


def holding(name: str, gpu: int) -> Message:
    return pod(name, given(GPU, f"SIMULATED-1-{gpu}"))


def test_a_job_that_ends_meanwhile_gets_nothing_more_and_the_other_loses_nothing(
    node: PodNode,
) -> None:
    node.kubelet.pods = (holding("stays", 0), holding("ends", 1))
    until(lambda: min(node.observed("stays"), node.observed("ends")) > 1.0)
    node.kubelet.stop()
    until(lambda: not node.is_up())
    seen = len(node.snapshots)
    until(lambda: len(node.snapshots) > seen + 3)  # the last window before has been delivered
    frozen = node.job("ends")
    assert frozen is not None
    node.kubelet.pods = (holding("stays", 0),)
    node.kubelet.start()
    until(lambda: (view := node.job("ends")) is not None and view.ended is not None)
    ended = node.job("ends")
    assert ended is not None
    assert ended.observed_seconds == frozen.observed_seconds
    assert ended.held_seconds == frozen.held_seconds
    assert ended.ended == pytest.approx(frozen.updated, abs=0.01)
    stays = node.job("stays")
    assert stays is not None
    assert stays.held_seconds > ended.held_seconds + 2.0
    assert stays.observed_seconds == pytest.approx(stays.held_seconds, rel=0.2)
    gpu = next(view for view in node.snapshots[-1].gpus if view.gpu.uuid == "SIMULATED-1-0")
    assert stays.observed_seconds <= gpu.observed_seconds + 1e-6


def test_totals_never_fall_over_a_restart(node: PodNode) -> None:
    node.kubelet.pods = (holding("stays", 0), holding("ends", 1))
    until(lambda: min(node.observed("stays"), node.observed("ends")) > 0.5)
    node.kubelet.stop()
    node.kubelet.pods = (holding("stays", 0),)
    node.kubelet.start()
    until(lambda: (view := node.job("ends")) is not None and view.ended is not None)
    for name in ("ns/stays", "ns/ends"):
        views = [
            view for snapshot in node.snapshots for view in snapshot.jobs if view.job.job_id == name
        ]
        observed = [view.observed_seconds for view in views]
        held = [view.held_seconds for view in views]
        assert observed == sorted(observed)
        assert held == sorted(held)
