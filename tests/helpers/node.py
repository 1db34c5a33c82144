"""A node whose ticks a test makes by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Claim, Job, JobKey, Ownership
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.snapshot import JobView, SchedulerHealth, Snapshot, SourceHealth
from tests.helpers.values import gpu, health, reading

EPOCH = 1_800_000_000.0


class Node:
    """A node whose ticks a test makes by hand; unix time is EPOCH plus the monotonic clock."""

    def __init__(self, gpus: int = 2) -> None:
        self.gpus = [gpu(index) for index in range(gpus)]
        self.epoch = EPOCH
        self.state = State()
        self.last = self.tick(0.0)

    def set_clock(self, seconds: float) -> None:
        """Move the node's clock, not the monotonic one."""
        self.epoch += seconds

    def tick(
        self,
        now: float,
        *events: Reading | Fault,
        owners: tuple[Ownership, ...] = (),
        present: list[Gpu] | None = None,
        stepped: frozenset[tuple[JobKey, str]] = frozenset(),
    ) -> Snapshot:
        tick = Tick(
            now=now,
            interval=5.0,
            present=self.gpus if present is None else present,
            events=events,
            source=health(),
            unix=self.epoch + now,
            owners=owners,
            schedulers=(SchedulerHealth("slurm", up=True, reason=None, answered_at=now),),
            stepped=stepped,
        )
        self.state, self.last = step(self.state, tick)
        return self.last

    def run(
        self,
        start: float,
        end: float,
        tensor: float = 0.5,
        window: float = 5.0,
        hz: Sequence[float] = (1400e6,) * 10,
    ) -> Snapshot:
        """Windows of every GPU from start to end, each with these clock reads."""
        while start < end - 1e-9:
            stop = min(start + window, end)
            windows = (reading(start, stop, tensor, hz, device=device) for device in self.gpus)
            self.tick(stop, *windows)
            start = stop
        return self.last

    def give(self, at: float, *claims: Claim) -> Snapshot:
        return self.tick(at, owners=(Ownership(at, claims),))

    def job(self, job_id: str = "1") -> JobView:
        return next(view for view in self.last.jobs if view.job.job_id == job_id)


def whole(job: Job, *devices: str) -> Claim:
    return Claim(job, devices)


def snapshot_of(*events: Reading | Fault, source: SourceHealth | None = None) -> Snapshot:
    """The snapshot of one tick at 5 s, in which the GPUs of these events are there."""
    gpus = [event.gpu for event in events]
    tick = Tick(5.0, 5.0, gpus, events, source or health(), unix=EPOCH + 5.0)
    return step(State(), tick)[1]
