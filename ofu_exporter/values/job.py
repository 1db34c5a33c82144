"""One job as its scheduler describes it, the devices that it holds, and its GPU-seconds on each GPU."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from ofu_exporter.values.instant import Span
from ofu_exporter.values.losses import NO_LOSSES, LossSums
from ofu_exporter.values.text import show, shown

if TYPE_CHECKING:  # imported only for types: Slurm's hooks use Job alone
    from ofu_exporter.values.gpu import GpuKey
    from ofu_exporter.values.reported import Compared

RECORDED = "replay"
"""The scheduler that gives the jobs of a recording."""
_TEXTS = (
    *("scheduler", "job_id", "name", "user", "account", "partition", "namespace"),
    *("array_job_id", "array_task_id", "nodes", "uid"),
)


class JobKey(NamedTuple):
    """What identifies a job on this node."""

    scheduler: str
    job_id: str


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
    """Unix time at which the job's first program started here. None = none has started, or the scheduler does not
    say."""
    uid: str = ""
    """Tells two jobs apart that were given the same id one after the other."""
    token_sha256: str = field(default="", repr=False)
    """SHA-256 of the token with which the job may report, in hexadecimal; it is shown nowhere."""
    aliases: tuple[str, ...] = ()
    """Other ids under which the job may report: those of its pods."""
    restarts: int | None = None
    """How often it was started again, as the scheduler counts."""
    cycles: int | None = None
    """How often NVRx has started it again besides; None = its files were not read yet, or there are none."""
    addresses: tuple[str, ...] = field(default=(), repr=False)
    """The IP addresses of its pods, as the scheduler knows them."""
    pod_uids: tuple[str, ...] = field(default=(), repr=False)
    """The uids of its pods, by which the kernel names their control groups."""

    def __post_init__(self) -> None:
        show(self, _TEXTS)
        object.__setattr__(self, "aliases", tuple(shown(alias) for alias in self.aliases))

    @property
    def key(self) -> JobKey:
        return JobKey(self.scheduler, self.job_id)

    def is_same_run(self, other: Job) -> bool:
        """Whether the two may be the same run. A run whose uid is not known yet may be any run of its user."""
        is_same = self.key == other.key and not self.is_anothers(other)
        return is_same and not is_another_run(self.uid, other.uid)

    def is_anothers(self, other: Job) -> bool:
        """Whether the two have one id and belong to two users: nothing of the one is the other's."""
        return bool(self.user and other.user) and self.user != other.user


def is_another_run(before: str, now: str) -> bool:
    """Whether two uids of one job id belong to two runs; "" = not known."""
    return bool(before and now) and before != now


@dataclass(frozen=True, slots=True)
class Claim:
    """The devices of this node that a scheduler has given to one job."""

    job: Job
    devices: tuple[str, ...]
    """The names that the scheduler uses; `device_names.parse` says which forms are understood."""
    ended: float | None = None
    """Unix time at which the job gave the devices back; None while it has them."""
    waiting: frozenset[str] = frozenset()
    """The devices that no program of the job uses yet, because none has started."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The claims of all schedulers together, which hold from one instant on."""

    at: float
    """Seconds, on the monotonic clock of the readings."""
    claims: tuple[Claim, ...]
    unsure: frozenset[str] = frozenset()
    """The schedulers that do not answer now. Their claims are from the last answer, and may be out of date."""


class Run(NamedTuple):
    """One run of a job on this node: a scheduler may start a job again under the same id."""

    uid: str
    began: float
    """Unix time at which the run was first seen here."""
    ended: float | None
    """Unix time at which the run was no longer seen; None while it holds a GPU."""
    held_seconds: float
    """The run's own GPU-seconds, over all GPUs of this node; the next two are such sums too."""
    observed_seconds: float
    utilization_seconds: float
    worked_since: float | None = None
    """Unix time of the run's first lasting tensor work, or stated step, on this node; None = none was seen."""


class UnsureWindow(NamedTuple):
    """A window of which it is not known yet whether it was of a start."""

    key: GpuKey
    start: float
    """On the monotonic clock, as the end."""
    end: float
    gpu_seconds: float
    works: bool
    """Whether it had tensor work."""


class Start(NamedTuple):
    """The starts of a job's runs on this node: the time before a run did lasting tensor work or stated a step."""

    seconds: float | None = None
    """Measured GPU-seconds of it, over all runs; None where no start was watched."""
    is_open: bool = False
    """Whether the current run still starts."""
    worked_at: float | None = None
    """When the current run began to work, on the monotonic clock."""
    unsure: tuple[UnsureWindow, ...] = ()
    """Windows that count once it is known whether work has begun."""
    busy_seconds: float = 0.0
    """In which a GPU ran kernels since the run began."""
    busy_until: float = 0.0
    """The instant up to which these are counted, on the monotonic clock."""
    since: float | None = None
    """Unix time at which the last start began."""
    earlier: tuple[Span, ...] = ()
    """The starts before, in Unix time."""
    opened_at: float = -math.inf
    """When the last start began, on the monotonic clock, if this agent saw it."""


NO_START = Start()


class ObservedSpan(NamedTuple):
    """A span of time in which one GPU was observed for one job."""

    start: float
    """Seconds on the monotonic clock."""
    end: float
    sums: Compared
    """What was observed in it; no MFU is known yet."""


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """The use of one GPU or MIG instance of this node by one job. Seconds are GPU-seconds: time x share of the GPU."""

    index: str
    key: GpuKey
    held_seconds: float = 0.0
    """GPU-seconds for which the job had the GPU, measured or not."""
    observed_seconds: float = 0.0
    """Part of these in which OFU was measured."""
    utilization_seconds: float = 0.0
    """Integral of OFU over the observed GPU-seconds."""
    sums: LossSums = NO_LOSSES
    """Where the rest of the peak went in these seconds."""
    recent: tuple[ObservedSpan, ...] = ()
    """The last minutes of the observed time, oldest first."""
    share: float = 1.0
    """Part of a whole GPU that the device last counted as."""
    waiting_seconds: float | None = None
    """Part of the held GPU-seconds before a program of the job had started; None if that time is not known."""
    shared_seconds: float | None = None
    """Part of the held GPU-seconds in which other jobs had the GPU too; None if it never was so."""
    in_last_run: bool = True
    """Whether the job's current or last run has had the GPU, and not an earlier one alone."""


def current_run(
    uid: str,
    lasted: tuple[float, float | None],
    usage: Collection[GpuUsage],
    earlier: Collection[Run],
) -> Run:
    """The current run of a job: its totals minus those of its earlier runs."""
    held, observed, utilization = (
        max(0.0, math.fsum(map(seconds, usage)) - math.fsum(map(seconds, earlier)))
        for seconds in map(attrgetter, ("held_seconds", "observed_seconds", "utilization_seconds"))
    )
    return Run(uid, *lasted, held, observed, utilization)
