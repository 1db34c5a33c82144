"""One job as its scheduler describes it, the devices it holds, and what it had of each GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ofu_exporter.values.gpu import GpuKey

JobKey = tuple[str, str]
"""(scheduler, job id): what identifies a job on this node."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job as its scheduler describes it. "" or None = the scheduler does not say."""

    scheduler: str
    job_id: str
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    namespace: str = ""
    array_job_id: str = ""
    array_task_id: str = ""
    nodes: str = ""
    """The job's nodes, as the scheduler writes them."""
    started: float | None = None
    """Unix time at which the job began."""
    running_since: float | None = None
    """Unix time at which the first of its programs started here. None = none has, or the scheduler does not say."""
    uid: str = ""
    """Tells two jobs apart that were given the same id one after the other."""
    token_sha256: str = field(default="", repr=False)
    """SHA-256 of the token with which the job may report, in hexadecimal; it is shown nowhere."""
    aliases: tuple[str, ...] = ()
    """Other ids under which the job may report: those of its pods."""

    @property
    def key(self) -> JobKey:
        return (self.scheduler, self.job_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """The devices of this node that a scheduler has given to one job."""

    job: Job
    devices: tuple[str, ...]
    """The names that the scheduler uses; `device_names.parse` says which forms are understood."""
    waiting: frozenset[str] = frozenset()
    """Those of the devices that no program of the job can use yet, since none has started."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The claims of all schedulers together, which hold from one instant on."""

    at: float
    """Seconds, on the monotonic clock of the readings."""
    claims: tuple[Claim, ...]
    unsure: frozenset[str] = frozenset()
    """The schedulers that do not answer now. Their claims are those of the last answer, and may be over."""


class Stretch(NamedTuple):
    """A stretch of time in which one GPU was observed for one job."""

    start: float
    """Seconds on the monotonic clock."""
    end: float
    utilization_seconds: float
    """Integral of OFU over the stretch."""
    variance: float
    """Variance of that integral, from the clock samples; s^2."""


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """What one job had of one GPU of this node."""

    index: str
    key: GpuKey
    held_seconds: float = 0.0
    """Time for which the job had the GPU, measured or not."""
    observed_seconds: float = 0.0
    """Part of that time in which OFU was measured."""
    utilization_seconds: float = 0.0
    """Integral of OFU over the observed time."""
    recent: tuple[Stretch, ...] = ()
    """The last minutes of the observed time, oldest first."""
    waiting_seconds: float | None = None
    """Part of the held time in which no program of the job had started; None where nobody says whether one had."""
