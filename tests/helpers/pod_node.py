"""A node of Kubernetes: the real scheduler, attribution and sampler, over stand-ins for kubelet and the API server."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from ofu_exporter import sources
from ofu_exporter.agent.attribution import Attribution
from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.sampler import Sampler, SamplingPlan
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.schedulers.kubernetes import api_server, driver
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.doubles.api_server import ApiServer
from tests.doubles.kubelet import GPU, Kubelet, given, pod


class PodNode:
    """A node with two simulated GPUs and kubelet, and the parts of an agent that credit jobs."""

    def __init__(self, folder: Path) -> None:
        self.kubelet = Kubelet(folder / "kubelet.sock")
        self.kubelet.start()
        self.api = ApiServer(folder / "account")
        server = api_server.ApiServer(folder / "account", self.api.environ)
        options = driver.Options.model_validate(
            {
                "kubelet_socket": self.kubelet.path,
                "kubernetes_poll": 0.5,
                "kubernetes_metadata": "on",
            }
        )
        self.snapshots: list[Snapshot] = []
        builder = partial(driver.Scheduler, options, server)
        self.attribution = Attribution([(driver.NAME, builder)], 300.0, time.monotonic)
        simulate = sources.load("simulate")
        source = partial(simulate.Source, sources.options("simulate").Options(), time.monotonic)
        plan = SamplingPlan([SourceBuilder("simulate", source)], SamplingPace(0.2, 0.2))
        self.sampler = Sampler(plan, self.snapshots.append, time.monotonic, self.attribution)
        self.attribution.start(self.sampler.cut)
        self.sampler.start()

    def stop(self) -> None:
        self.sampler.stop()
        self.attribution.stop()
        self.kubelet.stop()
        self.api.stop()

    def hold(self, *names: str) -> None:
        """What kubelet lists from now on: each of these pods with the GPU of its place."""
        self.kubelet.pods = [
            pod(name, given(GPU, f"SIMULATED-1-{place}")) for place, name in enumerate(names)
        ]

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
