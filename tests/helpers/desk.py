"""Makes reports, and a book of them over a node whose ticks a test makes by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.entry import Policy
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.hardware import hardware_of as hardware_of_views
from ofu_exporter.reports.messages import MfuAnswer, MfuReport
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Job
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.helpers.node import EPOCH, Node, snapshot_of, whole
from tests.helpers.values import FakeClock, reading

CLOCK = 1400e6 / 1830e6
"""SM clock of the readings over the tensor clock: OFU = tensor activity times this."""
A, B = Job("slurm", "1", user="ada"), Job("slurm", "2")
OFU = 0.5 * CLOCK
WITHOUT_NOISE = Policy(thresholds=Thresholds(standard_errors=0.0))


def said(job_id: str = "1", **fields: Any) -> MfuReport:
    """A report as it is after its JSON was read."""
    return MfuReport.model_validate({"job_id": job_id, **fields})


def anybody(job: Job | None) -> None:
    """Whoever reports may."""


def hardware_of(*gpus: Gpu) -> Hardware:
    """What these GPUs are to a report."""
    return hardware_of_views(snapshot_of(*(reading(device=each) for each in gpus)).gpus)


class Desk:
    """A report book over a node; time goes on with the node's windows."""

    def __init__(self, gpus: int = 2, policy: Policy | None = None) -> None:
        self.node = Node(gpus)
        self.clock = FakeClock(0.0)
        self.book = self.opened(policy)
        self.shown: Snapshot = self.node.last

    def opened(self, policy: Policy | None = None) -> ReportBook:
        """A book over this node, as every start of an agent opens one."""
        return ReportBook(
            lambda: replace(self.node.last, at=self.clock.now),
            policy,
            self.clock,
            lambda: EPOCH + self.clock.now,
        )

    def give(self, job: Job, *devices: str) -> None:
        self.node.give(self.clock.now, whole(job, *devices))
        self.show()

    def run(
        self,
        seconds: float,
        tensor: float = 0.5,
        window: float = 5.0,
        hz: Sequence[float] = (1400e6,) * 10,
    ) -> None:
        """Time goes by; every window's tick is reviewed, as the agent does."""
        end = self.clock.now + seconds
        while self.clock.now < end - 1e-9:
            stop = min(self.clock.now + window, end)
            self.node.run(self.clock.now, stop, tensor, window, hz)
            self.clock.now = stop
            self.show()

    def show(self) -> None:
        """What the page shows from now on."""
        self.shown = self.book.reviewed(self.node.last)

    def report(self, job_id: str = "1", **fields: Any) -> MfuAnswer:
        return self.book.report(said(job_id, **fields), anybody)

    def job(self, job_id: str = "1") -> JobView:
        """As it was shown last."""
        return next(view for view in self.shown.jobs if view.job.job_id == job_id)

    def every(self, seconds: float, times: int, tensor: float = 0.5, **fields: Any) -> MfuAnswer:
        """A report after each of some spans of time; the last answer."""
        for _ in range(times):
            self.run(seconds, tensor)
            answer = self.report(**fields)
        return answer


def refused(desk: Desk, job_id: str = "1", **fields: Any) -> ReportError:
    with pytest.raises(ReportError) as error:
        desk.report(job_id, **fields)
    return error.value
