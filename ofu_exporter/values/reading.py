"""What a source measured on one GPU in one window, and the window with its OFU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.losses import NO_LOSSES, Losses, LossSums
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.text import show, shown

Clock = Callable[[], float]
"""Returns seconds, monotonic."""
SHORTEST_WINDOW_SECONDS = 0.1
"""The hardware refreshes its counters at best this often; a value that is read sooner is invalid."""
COUNTER_AGE_SECONDS = SHORTEST_WINDOW_SECONDS / math.sqrt(3)
"""Root mean square of how old counters are when they are read: between two refreshes any age is as likely as another.
A GPM sample of an H200 was 0.046 s old in the mean and 0.092 at most (docs/hardware.md)."""
LONGEST_WINDOW_SECONDS = 30.0
"""Over a longer window DCGM's ratio is an average of averages (arXiv:2605.20799, section IV-C)."""
BUSY_UTILIZATION, BUSY_POWER = 0.5, 0.5
"""A GPU with utilization this high, and this share of its power limit, is not idle."""
BUSY_WATTS = 200.0
"""Where the limit is not known, no idle GPU draws this much."""
READ_CLOCK_EXCESS = 0.13
"""The SM clock that NVML names was up to 12.1 % above the true one on two cards, for all of a load and also without a
power cap, and nothing else that NVML says tells by how much (docs/hardware.md). Cycle counters have no such error."""
MAX_RATIO = 1.001
"""Activity may exceed 1 by this rounding: it is made of two counters that are not read in one instant."""


def overstated_by_clock(utilization: float) -> float:
    """By how much an OFU whose clock was read may be too high."""
    return utilization * (1 - 1 / (1 + READ_CLOCK_EXCESS))


class ClockSample(NamedTuple):
    """One point read of the SM clock."""

    at: float
    """Seconds, on the clock of the reading that the sample belongs to."""
    hz: float


class CycleTotals(NamedTuple):
    """Cumulative cycle counters as the driver returned them at the end of a window."""

    elapsed: float
    tensor: float


class Evidence(NamedTuple):
    """Other counters of a window, which show whether the GPU worked in it. None = not known."""

    graphics_active: float | None = None
    """Share of the time in which the graphics or compute engine was busy."""
    other_active: float | None = None
    """Activity of the busiest pipe besides the tensor pipes: integer, FP64, FP32 and FP16 are all known."""
    power: float | None = None
    """Power draw at the end of the window, as a share of the limit in force."""
    utilization_ratio: float | None = None
    """Share of the time in which a kernel ran, as `nvidia-smi` shows it: no profiling counter."""
    power_watts: float | None = None
    """Power draw at the end of the window, for a source that does not know the limit."""
    worked_seconds: float | None = None
    """How long after its start utilization and power last showed work in the window; None = they did not, or the source
    does not say."""

    @property
    def draws_power(self) -> bool:
        """Whether the power draw is that of a GPU that works; False where nothing is known of it."""
        if self.power is not None:
            return self.power >= BUSY_POWER
        return self.power_watts is not None and self.power_watts >= BUSY_WATTS

    @property
    def shows_work(self) -> bool:
        """Whether the driver's utilization and the power draw show work."""
        return (self.utilization_ratio or 0.0) >= BUSY_UTILIZATION and self.draws_power

    @property
    def busy_ratio(self) -> float | None:
        """Share of the time in which the engine was busy, by its own counter or else by the driver's."""
        return self.utilization_ratio if self.graphics_active is None else self.graphics_active


class Activity(NamedTuple):
    """What else the GPU did in the same seconds, as means over the window. None = not known."""

    engine: float | None = None
    """Share of the time in which any part of the graphics or compute engine was busy."""
    sm: float | None = None
    """Share of the cycles in which a warp was resident, mean over the SMs; the ratios below are means alike."""
    occupancy: float | None = None
    """Resident warps over the most that fit."""
    dram: float | None = None
    """Share of the cycles in which the memory sent or received data."""
    fp64: float | None = None
    fp32: float | None = None
    fp16: float | None = None
    integer: float | None = None
    pcie_sent: float | None = None
    """Bytes per second, as the three below."""
    pcie_received: float | None = None
    nvlink_sent: float | None = None
    nvlink_received: float | None = None
    energy_joules: float | None = None
    """Energy of the whole card in the window, by its own counter."""


NO_ACTIVITY = Activity()
RATIOS = ("engine", "sm", "occupancy", "dram", "fp64", "fp32", "fp16", "integer")
"""The fields of an activity that are shares, 0..1."""


class ActivitySample(NamedTuple):
    """One sample of the activity, where a source takes several in a window: each has a clock of its own."""

    start: float
    end: float
    tensor_active: float
    pipes: Mapping[str, float]
    sm: float | None = None
    """SM activity, where the source has it in the same samples."""


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
    """Seconds until the source has its next reading, if that is not the sampler's interval."""
    evidence: Evidence | None = None
    samples: tuple[ActivitySample, ...] = ()
    """The samples that the activity is the mean of, one after another; none where the hardware made the mean."""
    shape: tuple[ActivitySample, ...] = ()
    """How the activity lay in the window, where the hardware made the mean: only its proportions are used."""
    counts: bool = True
    """False for time before the source was first read: the window is shown, and added to no total."""
    clock_limits: tuple[ClockLimit, ...] | None = None
    """What held the SM clock down at the end of the window; empty = nothing did, None = the source does not say."""
    edge_seconds: float = 0.0
    """Seconds by which what was counted may begin or end before or after the window."""
    cut_seconds: float = 0.0
    """Seconds of the window for which a part of a sample stands that lies partly elsewhere."""
    activity: Activity = NO_ACTIVITY

    def __post_init__(self) -> None:
        if not all(map(str.isprintable, self.pipes)):
            printable = {shown(pipe): value for pipe, value in self.pipes.items()}
            object.__setattr__(self, "pipes", printable)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why one GPU has no reading for a window that ended at `at`."""

    gpu: Gpu
    at: float
    reason: Reason
    detail: str = ""

    def __post_init__(self) -> None:
        show(self, ("detail",))


class InnerWindow(NamedTuple):
    """A part of a window, which begins where the part before ends."""

    end: float
    utilization: float


class Window(NamedTuple):
    """What was measured on one GPU in one window, and its OFU where both inputs were measured."""

    start: float
    end: float
    tensor_active: float | None
    pipes: Mapping[str, float]
    sm_clock_hz: float | None
    utilization: float | None = None
    """OFU over the window; above 1 is legal when the clock ran above the tensor clock."""
    stderr: float | None = None
    """Standard error of the OFU: twice this holds the truth in 95 of 100 windows. None when unknown."""
    clock_method: str = ""
    """cycles (hardware cycle counters), polled (mean of several point reads) or point (one)."""
    share: float = 1.0
    """Part of a whole GPU that the window counts as."""
    inner: tuple[InnerWindow, ...] = ()
    """How the OFU lay in the window; none where only the whole is known."""
    clock_limits: tuple[ClockLimit, ...] | None = None
    """What held the SM clock down at its end; None where nobody says."""
    activity: Activity = NO_ACTIVITY
    """What else was measured, without the values that cannot be true."""
    losses: Losses = MappingProxyType({})
    """Where the rest of the peak went, as shares of the window; empty without an OFU."""
    used_seconds: float = 0.0
    """What the window adds to the sums of used GPU-seconds, and the two below to those of observed and lost ones."""
    observed_seconds: float = 0.0
    sums: LossSums = NO_LOSSES

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def overstated(self) -> float:
        """By how much the OFU may be too high beyond its standard error, because its clock was read, not counted."""
        return (
            0.0 if self.clock_method == "cycles" else overstated_by_clock(self.utilization or 0.0)
        )

    @property
    def gpu_seconds(self) -> float:
        """What the window adds to sums over GPUs: its length times the share."""
        return self.seconds * self.share
