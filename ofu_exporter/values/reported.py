"""A job's reports compared with the OFU of its GPUs: frozen values, ratios 0..1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, NamedTuple, Protocol, TypeVar

from ofu_exporter.values.progress import Progress
from ofu_exporter.values.trace import TraceSummary

Bound = Literal["exact", "lower"]
"""How the executed FLOPs, and with them the tile overhead, are known: exactly or as a lower bound."""


class Verdict(str, Enum):
    """What a comparison of a reported MFU with OFU says."""

    AGREE = "agree"
    MFU_ABOVE_OFU = "mfu_above_ofu"
    MFU_BELOW_OFU = "mfu_below_ofu"
    INSUFFICIENT_DATA = "insufficient_data"

    @property
    def diverged(self) -> bool:
        return self in (Verdict.MFU_ABOVE_OFU, Verdict.MFU_BELOW_OFU)


COMPARED_SECONDS = 60.0
"""With less observed time there is no verdict."""


def too_little(seconds: float) -> str:
    """What is said for `insufficient_data`, of a comparison over this many seconds."""
    if seconds >= COMPARED_SECONDS:
        return "too little data"
    return f"too little data: needs {COMPARED_SECONDS:.0f} s, has {seconds:.0f}"


class ErrorMethod(str, Enum):
    """How the standard error of an OFU is known."""

    MEASURED = "measured"
    """From the clock samples of each window."""
    ESTIMATED = "estimated"
    """From the spread of the clocks of windows that have one read each."""
    UNKNOWN = "unknown"
    """There are too few of these reads."""


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """What may have made a reported MFU differ from OFU."""

    cause: str
    """The cause's slug; of two causes together `one+other`."""
    expected_ratio: float
    """Reported MFU over OFU, if this were the cause."""
    misfit: float
    """Standard errors between the expected and the observed ratio."""
    evidence: str


class Fitting(Protocol):
    """A cause that fits, as far as a tie asks."""

    @property
    def misfit(self) -> float: ...


UNDECIDED = "undecided"
"""Stands first in the place of a cause where several fit and none is likelier than the others together."""
ALIKE = 2.0
"""Two causes fit as well unless the squares of their misfits differ by more."""
OneFitting = TypeVar("OneFitting", bound=Fitting)


def fits_as_well(one: Fitting, other: Fitting) -> bool:
    """Whether a cause fits as well as another."""
    return bool(one.misfit**2 <= other.misfit**2 + ALIKE)


def best_fitting(causes: Sequence[OneFitting]) -> tuple[OneFitting, ...]:
    """Those that fit as well as the one that fits best: the numbers cannot tell them apart."""
    best = min(causes, key=lambda each: each.misfit, default=None)
    return tuple(each for each in causes if best and fits_as_well(each, best))


@dataclass(frozen=True, slots=True)
class Causes:
    """The result of a search for the causes of a divergence."""

    fitting: tuple[LikelyCause, ...] = ()
    """Likeliest first."""
    tied: int = 0
    """How many causes fit as well as the one that fits best: the numbers cannot tell these apart."""
    advice: str = ""
    """What to check if no mistake in the report explains the divergence; "" otherwise."""

    @property
    def first(self) -> LikelyCause | None:
        return self.fitting[0] if self.fitting else None

    @property
    def named(self) -> tuple[LikelyCause, ...]:
        """Those with a name: what stands first where none may be blamed has none."""
        return tuple(each for each in self.fitting if each.cause != UNDECIDED)


class StandardError(NamedTuple):
    """The standard error of an OFU, and how it is known."""

    method: ErrorMethod | None = None
    """None where no OFU was observed."""
    largest: float = 0.0
    """The error to use in decisions. If it is not known, a window of one clock read may be off by an OFU of 1."""
    edges: float = 0.0
    """The part of it that comes from the ends of reports, which cut what was measured."""
    overstated: float = 0.0
    """By how much the OFU may be too high besides: its clock was read, not counted."""

    @property
    def ratio(self) -> float | None:
        """The standard error; None where it is not known."""
        return None if self.method in (None, ErrorMethod.UNKNOWN) else self.largest


NO_ERROR = StandardError()
FEWEST_READS = 8
"""Fewest point reads of a GPU's clock whose spread is used. If a clock has two values in equal shares, this number of
reads are all the same once in 128 times."""


class Compared(NamedTuple):
    """Sums over GPU-seconds that a report and OFU both cover."""

    mfu_seconds: float = 0.0
    """Reported MFU times these GPU-seconds."""
    utilization_seconds: float = 0.0
    gpu_seconds: float = 0.0
    variance: float = 0.0
    """Variance of the utilization seconds, from the clock samples of the windows that have several; s^2."""
    point_seconds: float = 0.0
    """GPU-seconds of the windows whose clock is one point read."""
    point_utilization_seconds: float = 0.0
    """Their utilization seconds."""
    point_reads: float = 0.0
    """How many such reads there are."""
    point_hz: float = 0.0
    """Sum of their clocks."""
    point_hz_squares: float = 0.0
    """Sum of the squares of their clocks."""
    edge_seconds: float = 0.0
    """By how many utilization seconds the sum may be off because ends of reports cut what was measured. A job may pause
    at the end of each report, so these errors are added up as if they were the same."""
    overstated_seconds: float = 0.0
    """By how many utilization seconds the sum may be too high, because clocks were read, not counted."""

    @property
    def mfu(self) -> float | None:
        """Mean reported MFU; None where nothing was observed."""
        return self.mfu_seconds / self.gpu_seconds if self.gpu_seconds > 0 else None

    @property
    def ofu(self) -> float | None:
        return self.utilization_seconds / self.gpu_seconds if self.gpu_seconds > 0 else None

    def error(self, gpus: float = 1.0) -> StandardError:
        """The standard error of the OFU. `gpus` is how many GPUs the sums are of; a MIG instance is a part of one.

        GPUs of one job work and pause together, and a load may have the same period as the reads. So the errors of
        point reads are added up as if they were fully correlated: with more reads the spread is known better, but
        does not get smaller.
        """
        if self.gpu_seconds <= 0:
            return NO_ERROR
        method, points = ErrorMethod.MEASURED, 0.0
        if self.point_reads >= FEWEST_READS * max(gpus, 1.0):
            method = ErrorMethod.ESTIMATED
            points = self.point_utilization_seconds * self._point_spread()
        elif self.point_seconds > 0:
            method, points = ErrorMethod.UNKNOWN, self.point_seconds
        off = math.hypot(math.sqrt(self.variance), points, self.edge_seconds)
        errors = off, self.edge_seconds, self.overstated_seconds
        return StandardError(method, *(each / self.gpu_seconds for each in errors))

    def _point_spread(self) -> float:
        """Standard deviation of the clocks that were read, as a share of their mean."""
        squares = self.point_hz_squares - self.point_hz**2 / self.point_reads
        deviation = math.sqrt(max(squares, 0.0) / (self.point_reads - 1))
        return deviation * self.point_reads / self.point_hz

    def plus(self, other: Compared) -> Compared:
        return Compared(*(one + more for one, more in zip(self, other, strict=True)))

    def scaled(self, share: float) -> Compared:
        """A share of all sums, and its square of the variance."""
        return Compared(*(share * each for each in self))._replace(
            variance=share * share * self.variance
        )


NOTHING_COMPARED = Compared()


@dataclass(frozen=True, slots=True)
class Adjusted:
    """OFU without the tile overhead, from when the job reported that overhead."""

    tile_overhead: float
    """Executed over theoretical FLOPs, minus 1."""
    bound: Bound | None = None
    """Whether the overhead is exact or a lower bound; with a lower bound the true adjusted OFU is at most the one here.
    None = the job did not say."""
    utilization_seconds: float = 0.0
    """Integral of OFU / (1 + overhead) (arXiv:2605.20799, eq. 8)."""
    gpu_seconds: float = 0.0
    """GPU-seconds in which OFU was observed."""

    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU without the tile overhead."""
        return self.utilization_seconds / self.gpu_seconds if self.gpu_seconds > 0 else None

    def plus(self, utilization_seconds: float, gpu_seconds: float) -> Adjusted:
        """The sums with more observed GPU-seconds."""
        return replace(
            self,
            utilization_seconds=self.utilization_seconds
            + utilization_seconds / (1 + self.tile_overhead),
            gpu_seconds=self.gpu_seconds + gpu_seconds,
        )


@dataclass(frozen=True)
class Reported(ABC):
    """What a job reported of itself, and how it compares with OFU over the same seconds."""

    stderr_ratio: float | None = None
    """Standard error of the OFU of all that was compared; None where it is not known."""
    stderr_method: ErrorMethod | None = None
    """How this error is known. Unless it is measured, the limits of the verdict are wider."""
    last: float | None = None
    """Unix time up to which the job has reported."""
    peak_flops: float | None = None
    """Dense peak of one GPU that the MFU divides by."""
    precision: Mapping[str, float] | None = None
    """Shares of the FLOPs that the job reported, and that this peak is for."""
    card: str | None = None
    """Key of the row of the job's GPUs in the table; None where they differ or are not in it."""
    framework: str = ""
    """The name of the framework that the job says it uses; empty where none is known."""
    recent_mfu_ratio: float | None = None
    """Mean reported MFU over the last minutes."""
    recent_verdict: Verdict = Verdict.INSUFFICIENT_DATA
    """Verdict on the last minutes."""
    recent_stderr_ratio: float | None = None
    """Standard error of the OFU of the last minutes."""
    recent_stderr_method: ErrorMethod | None = None
    """How this error is known."""
    verdict: Verdict = Verdict.INSUFFICIENT_DATA
    """Verdict on all that was compared; of several nodes together by the default thresholds, and what an honest MFU is
    of OFU on the card of all of them."""
    causes: Causes | None = None
    """Causes of the recent verdict."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Reports by what became of them."""
    adjusted: Adjusted | None = None
    """None where the job has not reported what tiles add."""
    trace: TraceSummary | None = None
    """Where the time of its last trace went; None where there was none."""
    finding_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of ranks that findings of all its traces cost at most, by finding."""
    traced_seconds: float = 0.0
    """Seconds of ranks in all these traces."""
    progress: Progress | None = None
    """How far it has come; None where it states no step."""

    @property
    @abstractmethod
    def total(self) -> Compared:
        """All that was compared, including what is already known of the last minute."""


@dataclass(frozen=True)
class ReportsView(Reported):
    """The same with the sums that only the page shows."""

    total: Compared = NOTHING_COMPARED
    horizon: Compared = NOTHING_COMPARED
    """Sums over the last minutes."""
    settled: Compared = NOTHING_COMPARED
    """Sums from the first report until a minute ago; they only grow."""

    def of_the_past(self) -> ReportsView:
        """The part that stays valid when no report was compared for a while: sums and counts, no verdict."""
        return replace(
            self,
            recent_mfu_ratio=None,
            recent_verdict=Verdict.INSUFFICIENT_DATA,
            recent_stderr_ratio=None,
            recent_stderr_method=None,
            causes=None,
            horizon=NOTHING_COMPARED,
        )
