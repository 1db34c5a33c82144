"""Kubelet and an API server on a clock of a test, and the scheduler that asks them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import api_server as asking
from ofu_exporter.schedulers.kubernetes import driver
from ofu_exporter.values.job import Claim, Job
from tests.doubles.api_server import ApiServer
from tests.doubles.kubelet import GPU, Kubelet, Message, pod
from tests.doubles.kubelet import given as devices_of
from tests.helpers.agent import SOON
from tests.helpers.values import FakeClock

NODE = "node-1"


class Bench:
    """Kubelet, the API server, the clock of the scheduler that asks them, and the scheduler."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.account = folder / "account"
        self.kubelet = Kubelet(folder / "kubelet.sock")
        self.kubelet.start()
        self.api = ApiServer(self.account)
        self.seconds = SOON
        self.scheduler = self.make()

    def make(self, **options: object) -> driver.Scheduler:
        """A scheduler with these options, instead of the one there was."""
        given = driver.Options.model_validate(
            {"kubelet_socket": self.kubelet.path, "node_name": NODE, **options}
        )
        server = asking.ApiServer(self.account, self.api.environ, self.seconds)
        self.scheduler = driver.Scheduler(given, server, self.clock)
        return self.scheduler

    def hold(self, *pods: Message) -> None:
        """What kubelet says from now on."""
        self.kubelet.pods = pods

    def claims(self, *pods: Message, after: float = 0.0) -> dict[str, tuple[str, ...]]:
        """The devices of every job."""
        return {claim.job.job_id: claim.devices for claim in self.answer(*pods, after=after)}

    def jobs(self, *pods: Message, after: float = 0.0) -> dict[str, Job]:
        return {claim.job.job_id: claim.job for claim in self.answer(*pods, after=after)}

    def answer(self, *pods: Message, after: float = 0.0) -> list[Claim]:
        self.clock.now += after
        if pods:
            self.hold(*pods)
        return list(self.scheduler.claims())

    def failure(self) -> SchedulerError:
        with pytest.raises(SchedulerError) as caught:
            self.scheduler.claims()
        return caught.value

    @property
    def rejected(self) -> Mapping[str, int]:
        return self.scheduler.rejected

    def close(self) -> None:
        self.scheduler.close()
        self.kubelet.stop()
        self.api.stop()


def holding(name: str, *ids: str, namespace: str = "ns") -> Message:
    """A pod with these devices."""
    return pod(name, devices_of(GPU, *ids), namespace=namespace)
