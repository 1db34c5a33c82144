"""Holds what was read of a fleet: its jobs, its GPUs by model, and of which hours anything is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ofu_exporter.fleet.hours import ServerClock, TimeSpan
from ofu_exporter.fleet.reports.sums import JobHistory, JobKey, JobSums, ModelSums

ClusterHour = tuple[str, int]


class AbsentNode(NamedTuple):
    """A node that was not seen for a part of the time."""

    cluster: str
    node: str
    shares: Mapping[int, float]
    """The share of each hour in which it was away."""
    gpus: float
    """That it had before; 0 where that is not known."""
    is_back: bool

    @property
    def gpu_hours(self) -> float:
        return self.gpus * sum(self.shares.values())


@dataclass(slots=True)
class FleetHistory:
    """What was read."""

    clock: ServerClock
    span: TimeSpan
    jobs: dict[JobKey, JobHistory] = field(default_factory=dict)
    models: dict[tuple[int, str, str], ModelSums] = field(default_factory=dict)
    """By day, cluster and model."""
    covered: dict[ClusterHour, float] = field(default_factory=dict)
    """Share of the hour of which anything is known, by cluster."""
    recorded: set[ClusterHour] = field(default_factory=set)
    """Hours that the recording rules kept."""
    raw: set[ClusterHour] = field(default_factory=set)
    """Hours that were computed from the agents' own series."""
    absent: list[AbsentNode] = field(default_factory=list)
    hours: dict[int, JobSums] = field(default_factory=dict)
    """The sums of all jobs, by hour; what was lost is known by day alone."""
    jobless_hours: dict[int, JobSums] = field(default_factory=dict)
    """The sums of GPUs not held by exactly one job, by hour."""
    target: float | None = None
    """The OFU that the recording rules aim at."""
    is_simulated: bool = False
    """Whether an agent said in any hour that its values are simulated."""
    is_partly_measured: bool = False
    """Whether another one did not."""
    remark: str = ""
    """What is to be known of all numbers, where they are not from our agents."""

    @property
    def mark(self) -> str:
        """What stands before everything else that is said of simulated values."""
        if self.is_simulated and self.is_partly_measured:
            return "SIMULATED in part: one agent or more measured no GPU. "
        return "SIMULATED, no GPU was measured. " if self.is_simulated else ""

    @property
    def clusters(self) -> list[str]:
        names = {cluster for cluster, _ in self.recorded | self.raw | set(self.covered)}
        return sorted(names | {key.cluster for key in self.jobs})

    def job(self, key: JobKey) -> JobHistory:
        return self.jobs.get(key) or self.jobs.setdefault(key, JobHistory(key))

    def add_hour(self, job: JobHistory, hour: int, sums: JobSums) -> None:
        """What a job had in an hour."""
        job.seen(hour)
        for there, place in ((job.days, self.clock.day_of(hour)), (self.hours, hour)):
            if place not in there:
                there[place] = JobSums()
            there[place].add(sums)

    def model(self, hour: int, cluster: str, model: str) -> ModelSums:
        key = (self.clock.day_of(hour), cluster, model)
        return self.models.get(key) or self.models.setdefault(key, ModelSums())
