"""Computes how close OFU was to MFU: the paper's Table II, its Fig. 1 and 3, and whether the card is within the bounds.

Differences are in points: hundredths of the peak.

The error that point reads of the SM clock cause is the paper's Table I, from our own samples. All reads together are
the baseline. Reads further apart are a subset of them. The error is the distance of the means of such subsets from the
mean of all reads (arXiv:2605.20799, section IV-C).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ofu_exporter.validation import Trial, TrialKind
from ofu_exporter.validation.results import Result, steady_windows
from ofu_exporter.values.gpu import Rating

CardVerdict = Literal["inside", "outside", "not_judged"]
JUDGED: TrialKind = "aligned"
"""The kind of products that the bounds are for: random multiples of 16, as in the paper's Table II."""


@dataclass(frozen=True, slots=True)
class ErrorBounds:
    """The largest mean absolute errors of a sound card, in points."""

    raw: float = 2.0
    adjusted: float = 0.5


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of one estimator over some products, in points: estimate minus MFU."""

    products: int
    mean_absolute: float
    """The paper, eq. 9."""
    mean: float
    within_2: float
    """Share of the products."""
    within_5: float


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    precision: str
    kind: TrialKind
    raw: Errors
    exact: Errors | None
    """Errors of OFU adjusted for tiles, for products whose kernel names describe the tiles fully; None = there are
    none."""
    lower: Errors | None
    """The same where kernel names give a lower bound of what tiles add."""
    stderr: float | None
    """Mean standard error of an OFU, from its clock reads; None if that of one product is not known."""
    raw_verdict: CardVerdict
    adjusted_verdict: CardVerdict


@dataclass(frozen=True, slots=True)
class CurvePoint:
    precision: str
    kind: TrialKind
    side: float
    """Geometric mean of the three sides."""
    tile_overhead: float | None
    """Overhead by kernel names."""
    bound: str
    counted_overhead: float | None
    """Overhead by the counters: OFU over MFU, minus 1."""


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How much faster a square is in one precision than in another, by time and by OFU."""

    precision: str
    base: str
    side: int
    achieved: float
    by_ofu: float
    """Ratio of OFU times peak."""
    of_peaks: float


@dataclass(frozen=True, slots=True)
class ClockExcess:
    """By what share the clock was above the one that FLOPs imply, where kernel names describe the tiles fully.

    Activity and tiles were exact to a tenth of a point on two cards (docs/hardware.md): what is left is the clock's.
    """

    products: int
    lowest: float
    mean: float
    highest: float


def rows(results: Sequence[Result], bounds: ErrorBounds) -> tuple[AccuracyRow, ...]:
    """The rows of the paper's Table II, in the order in which the precisions were run."""
    kinds: tuple[TrialKind, ...] = ("aligned", "unaligned")
    chosen: dict[tuple[str, TrialKind], list[Result]] = {
        (precision, kind): []
        for precision in dict.fromkeys(each.product.precision for each in results)
        for kind in kinds
    }
    for each in results:
        of_kind = chosen.get((each.product.precision, each.product.kind))
        if of_kind is not None and each.mfu is not None:
            of_kind.append(each)
    table = (_row(*key, of_kind, bounds) for key, of_kind in chosen.items())
    return tuple(row for row in table if row)


def clock_excess(results: Sequence[Result]) -> ClockExcess | None:
    """Of the products that the bounds are for; None where there are none."""
    shares = [
        each.adjusted / each.mfu - 1
        for each in results
        if each.product.kind == JUDGED and each.is_exact and each.adjusted and each.mfu
    ]
    if not shares:
        return None
    return ClockExcess(len(shares), min(shares), math.fsum(shares) / len(shares), max(shares))


def verdict(table: Sequence[AccuracyRow]) -> CardVerdict:
    """The verdict on the card: outside if one row is outside, not judged if no row is judged."""
    verdicts = {each for row in table for each in (row.raw_verdict, row.adjusted_verdict)}
    if "outside" in verdicts:
        return "outside"
    return "inside" if "inside" in verdicts else "not_judged"


def curve(results: Iterable[Result]) -> tuple[CurvePoint, ...]:
    """FLOP overhead over size (the paper, Fig. 1): squares in steps of 128, and products of any sides."""
    points = [
        CurvePoint(
            each.product.precision,
            each.product.kind,
            (each.product.m * each.product.n * each.product.k) ** (1 / 3),
            each.tiling.overhead_ratio,
            each.tiling.bound,
            each.counted_overhead,
        )
        for each in results
        if each.product.kind in ("square", "unaligned")
    ]
    return tuple(sorted(points, key=lambda point: (point.precision, point.kind, point.side)))


def speed_ups(results: Sequence[Result]) -> tuple[SpeedUp, ...]:
    """Speed-ups over TF32, or over BF16 where TF32 was not run (the paper, section IV-B and Fig. 3)."""
    squares = {
        (each.product.precision, each.product.m): each
        for each in results
        if each.product.kind == "square" and each.mfu and each.utilization
    }
    precisions = list(dict.fromkeys(precision for precision, _ in squares))
    base = next((each for each in ("tf32", "bf16") if each in precisions), "")
    return tuple(
        SpeedUp(
            precision,
            base,
            side,
            one.achieved_flops / other.achieved_flops,
            one.utilization * _peak(one) / (other.utilization * _peak(other)),
            _peak(one) / _peak(other),
        )
        for (precision, side), one in sorted(
            squares.items(), key=lambda each: (precisions.index(each[0][0]), each[0][1])
        )
        if precision != base and (other := squares.get((base, side)))
    )


def _peak(result: Result) -> float:
    return result.achieved_flops / (result.mfu or math.nan)


def _row(
    precision: str, kind: TrialKind, chosen: Sequence[Result], bounds: ErrorBounds
) -> AccuracyRow | None:
    raw = _errors([(each.utilization, each.mfu) for each in chosen])
    if raw is None:
        return None
    exact = _errors([(each.adjusted, each.mfu) for each in chosen if each.is_exact])
    lower = _errors([(each.adjusted, each.mfu) for each in chosen if not each.is_exact])
    stderrs = [each.stderr for each in chosen if each.stderr is not None]
    return AccuracyRow(
        precision,
        kind,
        raw,
        exact,
        lower,
        math.fsum(stderrs) / len(stderrs) if len(stderrs) == len(chosen) else None,
        _judged(kind, raw, bounds.raw),
        _judged(kind, exact, bounds.adjusted),
    )


def _judged(kind: TrialKind, errors: Errors | None, most: float) -> CardVerdict:
    if kind != JUDGED or errors is None:
        return "not_judged"
    return "inside" if errors.mean_absolute <= most else "outside"


def _errors(pairs: Sequence[tuple[float | None, float | None]]) -> Errors | None:
    """The errors of the known estimates of MFUs; None if no estimate is known."""
    points = [
        100 * (estimate - mfu)
        for estimate, mfu in pairs
        if estimate is not None and mfu is not None
    ]
    if not points:
        return None
    number = len(points)
    return Errors(
        number,
        math.fsum(map(abs, points)) / number,
        math.fsum(points) / number,
        sum(abs(point) <= 2 for point in points) / number,
        sum(abs(point) <= 5 for point in points) / number,
    )


INTERVALS = (1.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds between two reads: the paper's intervals, and 1 s."""
FEWEST = 5
"""Fewest reads of a mean."""
TWO_SIDED_95 = 1.96


@dataclass(frozen=True, slots=True)
class Spread:
    """How much means of reads at one interval scatter around the mean of all reads, in points of OFU."""

    interval_seconds: float
    reads: int
    """Reads in each mean."""
    std: float
    """Standard deviation of a mean over the whole time."""
    interval_95: float


@dataclass(frozen=True, slots=True)
class Noise:
    precision: str
    seconds: float
    reads: int
    lowest_hz: float
    mean_hz: float
    highest_hz: float
    std_hz: float
    utilization: float
    spreads: tuple[Spread, ...]


def noise(trial: Trial, rating: Rating) -> Noise | None:
    """The noise in the steady part of a run; None if that part has too few clock reads."""
    windows = list(steady_windows(trial, rating))
    starts = {each.start for each in windows}
    readings = [each for each in trial.readings if each.start in starts]
    reads = [sample for each in readings for sample in each.clocks[1:]]
    if len(reads) < FEWEST:
        return None
    clocks = [sample.hz for sample in reads]
    seconds = math.fsum(each.seconds for each in windows)
    scale = {each.start: (each.utilization or 0.0) / (each.sm_clock_hz or 1.0) for each in windows}
    series = [sample.hz * scale[each.start] for each in readings for sample in each.clocks[1:]]
    return Noise(
        trial.product.precision,
        seconds,
        len(clocks),
        min(clocks),
        statistics.fmean(clocks),
        max(clocks),
        statistics.stdev(clocks),
        math.fsum((each.utilization or 0.0) * each.seconds for each in windows) / seconds,
        spreads(series, seconds / len(series)),
    )


def spreads(series: Sequence[float], step_seconds: float) -> tuple[Spread, ...]:
    """The scatter of means of every n-th value around the mean of all, for each interval that fits into the series.

    `series` are OFUs as ratios, one for each clock read, `step_seconds` apart.
    """
    fitting = []
    for interval in INTERVALS:
        every = round(interval / step_seconds)
        if every >= 2 and len(series) // every >= FEWEST:
            means = [100 * statistics.fmean(series[first::every]) for first in range(every)]
            middle = 100 * statistics.fmean(series)
            square = math.fsum((mean - middle) ** 2 for mean in means) / every
            std = math.sqrt(square)
            fitting.append(Spread(interval, len(series) // every, std, TWO_SIDED_95 * std))
    return tuple(fitting)
