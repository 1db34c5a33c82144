"""Makes the result of a trial: what the counters say and what was really computed, over the same seconds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ofu_exporter.hardware.tiles import adjusted_utilization
from ofu_exporter.ofu import window
from ofu_exporter.ofu.cycles import CycleTrust
from ofu_exporter.validation import Mark, Product, Tiling, Trial
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.reading import Window

SETTLE_SECONDS = 1.0
"""Seconds at the beginning of a run that are not compared, because the clock is still falling from that of an idle
card."""
SHARE_ROUNDING = 1e-6
LONGEST_SETTLE_SHARE = 1 / 3
"""Largest share of a short run that is not compared."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one product. Ratios are 0..1."""

    product: Product
    seconds: float
    """Time of the windows that were compared."""
    achieved_flops: float
    """Theoretical FLOPs per second."""
    tensor_hz: float
    """Tensor cycles of one SM per second: TPA times clock."""
    utilization: float
    """OFU, computed as in the agent."""
    stderr: float | None
    """Standard error of the OFU, from its clock reads; None = not known."""
    mfu: float | None
    """Achieved FLOP/s over the dense peak of the precision; None where the peak is not known."""
    tiling: Tiling

    @property
    def adjusted(self) -> float | None:
        """OFU without the tile overhead (arXiv:2605.20799, eq. 8); None if that is not known."""
        ratio = self.tiling.overhead_ratio
        return None if ratio is None else adjusted_utilization(self.utilization, ratio)

    @property
    def is_exact(self) -> bool:
        """Whether the tile overhead is known exactly, for all of the time."""
        tiling = self.tiling
        is_whole = tiling.attributed_share > 1 - SHARE_ROUNDING
        return tiling.overhead_ratio is not None and tiling.bound == "exact" and is_whole

    @property
    def counted_overhead(self) -> float | None:
        """FLOPs that the counters saw over those of the product, minus 1 (eq. 2)."""
        return self.utilization / self.mfu - 1 if self.mfu else None


def result(trial: Trial, rating: Rating) -> Result | None:
    """The result of a trial; None if no whole window lies in the steady part of the run."""
    windows = list(steady_windows(trial, rating))
    seconds = math.fsum(each.seconds for each in windows)
    if not seconds:
        return None
    done = math.fsum(
        launches_at(trial.marks, each.end) - launches_at(trial.marks, each.start)
        for each in windows
    )
    achieved = trial.product.flops * done / seconds
    peak = rating.peak_flops.get(trial.product.precision)
    return Result(
        product=trial.product,
        seconds=seconds,
        achieved_flops=achieved,
        tensor_hz=_mean(
            windows, lambda each: (each.tensor_active or 0.0) * (each.sm_clock_hz or 0.0)
        ),
        utilization=_mean(windows, lambda each: each.utilization or 0.0),
        stderr=_stderr(windows, seconds),
        mfu=achieved / peak if peak else None,
        tiling=trial.tiling,
    )


def steady_windows(trial: Trial, rating: Rating) -> Iterator[Window]:
    """The windows with an OFU that lie within the run after the clock has settled."""
    began, ended = trial.marks[0].at, trial.marks[-1].at
    began += min(SETTLE_SECONDS, (ended - began) * LONGEST_SETTLE_SHARE)
    trust = CycleTrust()
    previous_end: float | None = None
    for reading in trial.readings:
        if reading.start != previous_end:
            trust = CycleTrust()
        previous_end = reading.end
        # The load never changes, so counters of a moment ago say the same; only cycles are of other seconds then.
        edge_seconds = reading.edge_seconds if reading.cycles else 0.0
        outcome = window.measure(replace(reading, edge_seconds=edge_seconds), rating, trust)
        trust = outcome.trust
        measured = outcome.window
        inside = began <= reading.start and reading.end <= ended
        if inside and measured is not None and measured.utilization is not None:
            yield measured


def launches_at(marks: Sequence[Mark], at: float) -> float:
    """How many launches had ended at an instant between the first and the last mark, interpolated between two marks."""
    right = min(max(bisect_right(marks, at, key=lambda mark: mark.at), 1), len(marks) - 1)
    before, after = marks[right - 1], marks[right]
    share = (at - before.at) / (after.at - before.at)
    return before.launches + share * (after.launches - before.launches)


def _mean(windows: Sequence[Window], value: Callable[[Window], float]) -> float:
    """The mean of a value of windows, weighted by their time."""
    seconds = math.fsum(each.seconds for each in windows)
    return math.fsum(value(each) * each.seconds for each in windows) / seconds


def _stderr(windows: Sequence[Window], seconds: float) -> float | None:
    """Standard error of the time-weighted mean of windows whose errors are independent."""
    errors = [each.stderr * each.seconds for each in windows if each.stderr is not None]
    if len(errors) < len(windows):
        return None
    return math.sqrt(math.fsum(error * error for error in errors)) / seconds
