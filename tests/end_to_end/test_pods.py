"""Kubelet restarts, or a pod waits for its image: everything is real but kubelet, the API server and the GPUs."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ofu_exporter.schedulers.kubernetes import driver, pods
from tests.doubles import api_server as doubles
from tests.helpers.agent import until
from tests.helpers.pod_node import PodNode

pytestmark = pytest.mark.slow


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[PodNode]:
    monkeypatch.setattr(driver, "SETTLE_SECONDS", 2.0)
    monkeypatch.setattr(pods, "PACE_SECONDS", 0.2)
    with tempfile.TemporaryDirectory(prefix="ofu-") as name:
        node = PodNode(Path(name))
        for each in ("stays", "ends"):
            node.api.add(doubles.pod(each))
        try:
            yield node
        finally:
            node.stop()


def test_a_job_that_ends_meanwhile_gets_nothing_more_and_the_other_loses_nothing(
    node: PodNode,
) -> None:
    node.hold("stays", "ends")
    until(lambda: min(node.observed("stays"), node.observed("ends")) > 1.0)
    node.kubelet.stop()
    until(lambda: not node.is_up())
    seen = len(node.snapshots)
    until(lambda: len(node.snapshots) > seen + 3)  # the last window before has been delivered
    frozen = node.job("ends")
    assert frozen is not None
    node.hold("stays")
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


def test_a_job_that_ends_meanwhile_keeps_what_it_did_where_the_api_server_tells_its_end(
    node: PodNode,
) -> None:
    node.hold("stays", "ends")
    until(lambda: min(node.observed("stays"), node.observed("ends")) > 1.0)
    node.kubelet.stop()
    until(lambda: not node.is_up())
    frozen = node.job("ends")
    assert frozen is not None
    until(lambda: time.time() > frozen.updated + 3.0)
    now = datetime.now(timezone.utc)
    ended = doubles.finished("2026-03-01T10:00:00Z", now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    node.api.add(doubles.pod("ends", phase="Succeeded", containers={"worker": ended}))
    node.hold("stays")
    node.kubelet.start()
    until(lambda: (view := node.job("ends")) is not None and view.ended is not None)
    view = node.job("ends")
    assert view is not None
    assert view.ended == math.floor(now.timestamp())
    more = view.ended - frozen.updated
    assert more > 1.0
    assert view.held_seconds - frozen.held_seconds == pytest.approx(more, abs=0.1)
    assert view.observed_seconds - frozen.observed_seconds == pytest.approx(more, abs=1.0)


def test_totals_never_fall_over_a_restart(node: PodNode) -> None:
    node.hold("stays", "ends")
    until(lambda: min(node.observed("stays"), node.observed("ends")) > 0.5)
    node.kubelet.stop()
    node.hold("stays")
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


def test_a_pod_that_waits_for_its_image_gets_its_ofu_from_its_start(node: PodNode) -> None:
    node.api.add(doubles.pod("stays", phase="Pending", containers={"worker": doubles.WAITING}))
    node.hold("stays")
    until(lambda: (view := node.job("stays")) is not None and (view.waiting_seconds or 0) > 1.0)
    waits = node.job("stays")
    assert waits is not None
    assert waits.observed_seconds == 0.0
    assert waits.held_seconds == pytest.approx(waits.waiting_seconds)
    until(lambda: any(gpu.observed_seconds > 1.0 for gpu in node.snapshots[-1].gpus if gpu.holders))
    since = doubles.running("2026-03-01T10:00:00Z")
    node.api.add(doubles.pod("stays", containers={"worker": since}))
    until(lambda: node.observed("stays") > 1.0)
    runs = node.job("stays")
    assert runs is not None
    assert runs.waiting_seconds is not None
    assert runs.held_seconds - runs.waiting_seconds == pytest.approx(runs.observed_seconds, rel=0.4)


def test_while_the_api_server_is_away_a_pod_stands_for_its_job_and_no_second_counts_twice(
    node: PodNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "HOLD_SECONDS", 0.5)
    started = datetime.now(timezone.utc)
    node.api.add(
        doubles.pod(
            "web-1",
            labels={"pod-template-hash": "5d"},
            owner=("apps/v1", "ReplicaSet", "web-5d", "u"),
            started=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
    )
    node.api.statuses["/"] = 503
    node.hold("web-1")
    until(lambda: node.observed("web-1") > 2.0)
    node.api.statuses.clear()
    until(lambda: (view := node.job("web")) is not None and view.observed_seconds > 3.0)
    assert node.job("web-1") is None
    view = node.job("web")
    assert view is not None
    assert view.held_seconds <= view.updated - math.floor(started.timestamp()) + 0.01
    assert view.observed_seconds == pytest.approx(view.held_seconds, abs=3.0)


def test_the_restarts_of_a_container_and_of_a_jobset_are_counted_once_each(
    node: PodNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container begins anew twice, JobSet makes its pod anew, and that begins anew once: four restarts."""
    monkeypatch.setattr(pods, "REFRESH_SECONDS", 0.2)
    jobset = "jobset.sigs.k8s.io/"

    def turn(pod: str, attempt: int, count: int) -> None:
        labels = {f"{jobset}jobset-name": "train", f"{jobset}jobset-uid": "u"}
        labels |= {f"{jobset}restart-attempt": str(attempt)}
        worker = {**doubles.running("2026-03-01T10:00:00Z"), "restartCount": count}
        sidecar = {**worker, "restartCount": 70}
        containers = {"worker": worker, "log-shipper": sidecar}
        node.api.add(doubles.pod(pod, labels, containers=containers))
        node.hold(pod)

    turns = [("train-0-a", 0, 0), ("train-0-a", 0, 2), ("train-0-b", 1, 0), ("train-0-b", 1, 1)]
    for one, restarts in zip(turns, (0, 2, 3, 4), strict=True):
        turn(*one)
        until(lambda: (view := node.job("train")) is not None and view.restarts == restarts)  # noqa: B023
        time.sleep(1.0)
        view = node.job("train")
        assert view is not None
        assert view.restarts == restarts
        assert view.ended is None
