"""Computes the error that point reads of the SM clock cause: the paper's Table I, from our own samples.

All reads together are the baseline. Reads further apart are a subset of them. The error is the distance of the means
of such subsets from the mean of all reads (arXiv:2605.20799, section IV-C).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ofu_exporter.validation import Trial
from ofu_exporter.validation.results import steady_windows
from ofu_exporter.values.gpu import Rating

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
