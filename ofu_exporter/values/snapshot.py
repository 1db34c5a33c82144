"""The frozen values that cross a border between rooms: base units, and None where nothing was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ofu_exporter.errors import Reason, SchedulerReason
from ofu_exporter.values.reported import ReportsView

Clock = Callable[[], float]
"""Returns seconds, monotonic."""
GpuKey = tuple[str, str]
"""(uuid, MIG GPU-instance id or ""): what identifies a measured device."""

SHORTEST_WINDOW_SECONDS = 0.1
"""The hardware refreshes its counters at best this often; what is read faster is invalid."""
LONGEST_WINDOW_SECONDS = 30.0
"""Beyond this DCGM's ratio is an average of averages (arXiv:2605.20799, section IV-C)."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or one MIG instance of it, as its source describes it. None or "" = the source does not say."""

    index: str
    uuid: str
    instance: str = ""
    profile: str = ""
    name: str = ""
    pci_bus_id: str = ""
    pci_device_id: str = ""
    """Four hexadecimal digits, lower case, of NVIDIA's vendor id 10de."""
    driver: str = ""
    sm_count: int | None = None
    compute_capability: tuple[int, int] | None = None
    max_sm_clock_hz: float | None = None
    memory_bytes: int | None = None
    minor: int | None = None
    """N of /dev/nvidiaN, by which Slurm and some device plugins name the GPU."""
    mig_uuid: str = ""

    @property
    def key(self) -> GpuKey:
        return (self.uuid, self.instance)


class ClockSample(NamedTuple):
    """One point read of the SM clock."""

    at: float
    """Seconds, on the clock of the reading it belongs to."""
    hz: float


class CycleTotals(NamedTuple):
    """Cumulative cycle counters as the driver returned them at the end of a window."""

    elapsed: float
    tensor: float


class Evidence(NamedTuple):
    """What else a source knows of a window that shows whether the GPU worked in it. None = not known."""

    graphics_active: float | None = None
    """Share of the time in which the graphics or compute engine was busy."""
    other_active: float | None = None
    """Activity of the busiest pipe besides the tensor pipes: integer, FP64, FP32 and FP16 are all known."""
    power: float | None = None
    """Power draw at the end of the window, as a share of the limit in force."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source measured on one GPU over one window. Ratios are 0..1; absent counters are None."""

    gpu: Gpu
    start: float
    end: float
    """Seconds on a monotonic clock; the window is (start, end]."""
    tensor_active: float | None = None
    pipes: Mapping[str, float] = field(default_factory=dict)
    """Activity per tensor pipe: hmma, imma, dmma, dfma; only those the source has."""
    clocks: tuple[ClockSample, ...] = ()
    cycles: CycleTotals | None = None
    pace: float = 0.0
    """Seconds within which its source has the next reading, where that is not the sampler's interval."""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Why one GPU has no reading for a window that ended at `at`."""

    gpu: Gpu
    at: float
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """What was measured on one GPU in one window, and the OFU made of it where both inputs are there."""

    start: float
    end: float
    tensor_active: float | None
    pipes: Mapping[str, float]
    sm_clock_hz: float | None
    utilization: float | None = None
    """OFU over the window; above 1 is legal when the clock ran above the tensor clock."""
    stderr: float | None = None
    """Standard error of the OFU from the clock samples; 0 with cycle counters, None when unknown."""
    clock_method: str = ""
    """cycles (hardware cycle counters), polled (mean of several point reads) or point (one)."""

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Rating:
    """What one GPU is measured against."""

    tensor_clock_hz: Mapping[str, float]
    """Highest clock of the tensor pipe per clock domain (`low_precision`, `fp64`)."""
    peak_flops: Mapping[str, float]
    """Dense peak per precision; empty when not known."""
    origin: str
    """published (the table), configured (the user's row) or estimated (the card's own maximum SM clock)."""
    model: str = ""
    """Key of the row, "" when estimated."""
    max_sm_clock_hz: float | None = None
    """Highest SM clock of the model, to tell a clock from another field's value."""
    sm_count: int | None = None
    """SMs of the model, for a source that does not tell how many the GPU has."""


@dataclass(frozen=True, slots=True)
class GpuView:
    """Everything the faces may say about one GPU."""

    gpu: Gpu
    rating: Rating | None
    window: Window | None
    """The last window; None once it is too old, or after a fault."""
    reason: Reason | None
    """Why there is no OFU; None exactly when the window has one."""
    detail: str = ""
    utilization_seconds: float = 0.0
    observed_seconds: float = 0.0
    rejected: Mapping[str, int] = field(default_factory=dict)
    sampled_at: float | None = None
    """End of the last window that had an OFU, kept when the window itself is gone."""
    fresh_until: float = 0.0
    """After this instant the window must not be shown any more."""
    source: str = ""
    """What it is read through; "" = the snapshot's first source."""
    holders: tuple[Job, ...] = ()
    """The jobs that have the GPU now; its OFU is credited to a job only while there is just one."""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a counter source fares, apart from what it measured."""

    name: str
    up: bool = False
    reason: Reason | None = Reason.STARTING
    detail: str = ""
    simulated: bool = False
    reads: int = 0
    read_seconds: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    missed_deadlines: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Rows of the source that belong to no GPU: over-long labels, unreadable lines."""


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
    """Unix time at which it began."""
    uid: str = ""
    """What tells two jobs apart that were given the same id one after the other."""
    token_sha256: str = field(default="", repr=False)
    """Of the token with which the job may report, in hexadecimal; shown nowhere."""
    aliases: tuple[str, ...] = ()
    """Other ids by which the job may call itself when it reports: its pods."""

    @property
    def key(self) -> JobKey:
        return (self.scheduler, self.job_id)


@dataclass(frozen=True, slots=True)
class Claim:
    """The devices of this node that a scheduler has given to one job."""

    job: Job
    devices: tuple[str, ...]
    """As the scheduler names them; `devices.parse` says which forms are understood."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What all schedulers together say from one instant on."""

    at: float
    """Seconds, on the monotonic clock of the readings."""
    claims: tuple[Claim, ...]


class Stretch(NamedTuple):
    """A stretch of time in which one GPU was observed for one job."""

    start: float
    """Seconds on the monotonic clock."""
    end: float
    utilization_seconds: float
    """Integral of OFU over it."""
    variance: float
    """Of that integral, from the clock samples; s^2."""


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """What one job had of one GPU of this node."""

    index: str
    key: GpuKey
    held_seconds: float = 0.0
    """Time for which the job had the GPU, measured or not."""
    observed_seconds: float = 0.0
    """Time of it in which OFU was measured."""
    utilization_seconds: float = 0.0
    """Integral of OFU over that time."""
    recent: tuple[Stretch, ...] = ()
    """The last minutes of that time, oldest first."""


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything the faces may say about one job on this node."""

    job: Job
    usage: tuple[GpuUsage, ...]
    """Of every GPU that the job has, or had, here."""
    distribution: Mapping[int, float]
    """Observed seconds by the OFU of their window, in steps of `jobs.STEP`."""
    began: float
    """Unix time at which it was first seen here."""
    ended: float | None
    """Unix time at which it was no longer seen; None while it holds a GPU."""
    updated: float
    """Unix time of this view."""
    reports: ReportsView | None = None
    """None while it has reported nothing."""

    @property
    def observed_seconds(self) -> float:
        return math.fsum(usage.observed_seconds for usage in self.usage)

    @property
    def utilization_seconds(self) -> float:
        return math.fsum(usage.utilization_seconds for usage in self.usage)

    @property
    def held_seconds(self) -> float:
        return math.fsum(usage.held_seconds for usage in self.usage)


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """How a scheduler's answers fare, apart from what they say."""

    name: str
    up: bool = False
    reason: SchedulerReason | None = SchedulerReason.STARTING
    detail: str = ""
    polls: int = 0
    poll_seconds: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    """What it said that was not believed, by reason."""
    answered_at: float | None = None
    """When it last gave an answer."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent state of the agent; replaced as a whole, never changed."""

    at: float
    gpus: tuple[GpuView, ...]
    source: SourceHealth
    """The source that is read first; GPUs that it cannot measure may be read by another."""
    jobs: tuple[JobView, ...] = ()
    schedulers: tuple[SchedulerHealth, ...] = ()
    unknown_devices: tuple[tuple[JobKey, str], ...] = ()
    """Devices that a scheduler gave to a job and that are no GPU measured here."""
    unowned_reports: tuple[tuple[str, ReportsView], ...] = ()
    """What jobs reported that own no GPU here, by job id."""
    other_sources: tuple[SourceHealth, ...] = ()
    """Those that are read, or were tried, for GPUs that the first one cannot measure."""
    clock_steps: int = 0
    """How often the node's clock was set while the agent ran."""
