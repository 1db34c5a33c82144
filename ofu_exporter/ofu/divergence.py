"""Compares the MFU that a job reports with the OFU of its GPUs over the same seconds, and says whether they agree.

OFU counts every cycle of the tensor pipes, so with the same peak a report above it is over-counted; a report
below it leaves work out, of which some is normal (`honest_ratio`). "Instant GPU Efficiency Visibility at Fleet
Scale" (arXiv:2605.20799), section V-C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.ofu.honest_ratio import NOT_MEASURED, HonestRatio
from ofu_exporter.values import quantities
from ofu_exporter.values.reported import (
    COMPARED_SECONDS,
    Compared,
    ErrorMethod,
    StandardError,
    Verdict,
)

OFU_LIMIT = 1.5
"""A clock above the tensor clock takes OFU a little over 1, never as far as this."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The differences from which on MFU and OFU disagree: in points and as a share of OFU; the larger one applies."""

    above: float = 0.02
    """Points (0.02 = 2) that MFU may be above the most that an honest one is of OFU; the standard errors are added."""
    below: float = 0.05
    """Points that MFU may be below OFU; it must be below the least that an honest one is, too, by standard errors."""
    above_relative: float = 0.0
    """The same as a share of OFU."""
    below_relative: float = 0.0
    standard_errors: float = 2.0
    """How many standard errors of OFU widen the upper limit. One that is not measured widens the lower one too, and so
    does the part of it that comes from the ends of reports. So does a clock that is read."""
    widest: float = 0.1
    """Points by which an error that is not measured may widen the limits: beyond that there is no verdict `agree`. The
    part from the ends of reports may not widen them by more at all."""
    hysteresis: float = 0.8
    """A verdict ends when the difference falls below this share of the threshold that began it."""
    observed_seconds: float = COMPARED_SECONDS
    """With less observed time there is no verdict."""
    honest: HonestRatio = NOT_MEASURED
    """What an honest MFU is of OFU."""

    def __post_init__(self) -> None:
        for field in fields(self)[:-1]:
            value = getattr(self, field.name)
            if not math.isfinite(value) or value < 0:
                raise ConfigError(f"{field.name}: {value!r} is not a number of 0 or more")
        if self.hysteresis > 1:
            raise ConfigError(f"hysteresis: {self.hysteresis!r} is above 1")

    def most_above(self, ofu: float) -> float:
        """MFU - OFU that may be, if OFU has no error."""
        points = max(self.above, self.above_relative * ofu)
        return max(points - (1 - self.honest.high) * ofu, 0.0)

    def most_below(self, ofu: float) -> float:
        """OFU - MFU that may be, if OFU has no error."""
        share = max(self.below_relative, 1 - self.honest.low)
        return max(self.below, share * ofu)


DEFAULT = Thresholds()


class Divergence(NamedTuple):
    """An MFU against an OFU."""

    difference: float
    """MFU - OFU."""
    relative: float | None
    """|MFU - OFU| / OFU; None where OFU is 0."""
    verdict: Verdict
    error: StandardError
    """The standard error of the OFU that the verdict was made with."""


def compare_sums(
    sums: Compared,
    gpus: float = 1.0,
    thresholds: Thresholds = DEFAULT,
    previous: Verdict | None = None,
) -> Divergence | None:
    """Compare sums; None where nothing was observed. `gpus` is how many GPUs the GPU-seconds are of; a MIG
    instance is a part of one. `previous` is the verdict before this one, which stays until the difference is clearly
    inside the threshold again.

    A measured OFU is compared as it is, also far above 1: with a wrong row in the configuration the GPU shows
    such an OFU, and no report is at fault.
    """
    mfu, ofu, error = sums.mfu, sums.ofu, sums.error(gpus)
    if mfu is None or ofu is None:
        return None
    difference = mfu - ofu
    relative = abs(difference) / ofu if ofu else None
    edges = thresholds.standard_errors * error.edges
    is_short = sums.gpu_seconds / (gpus or 1.0) < thresholds.observed_seconds
    if is_short or edges > thresholds.widest:
        return Divergence(difference, relative, Verdict.INSUFFICIENT_DATA, error)
    is_measured = error.method is ErrorMethod.MEASURED
    wider = thresholds.standard_errors * min(error.largest, 1.0)
    above = thresholds.most_above(ofu) + wider
    below = thresholds.most_below(ofu) + (edges if is_measured else wider)
    below = max(below, (1 - thresholds.honest.low) * ofu + wider) + error.overstated
    above *= thresholds.hysteresis if previous is Verdict.MFU_ABOVE_OFU else 1
    below *= thresholds.hysteresis if previous is Verdict.MFU_BELOW_OFU else 1
    hysteresis = thresholds.hysteresis if previous is Verdict.AGREE else 1
    verdict = Verdict.AGREE
    if difference > above:
        verdict = Verdict.MFU_ABOVE_OFU
    elif difference < -below:
        verdict = Verdict.MFU_BELOW_OFU
    elif not is_measured and wider * hysteresis > thresholds.widest:
        verdict = Verdict.INSUFFICIENT_DATA
    return Divergence(difference, relative, verdict, error)


def verdict(sums: Compared, gpus: float = 1.0, thresholds: Thresholds = DEFAULT) -> Verdict:
    divergence = compare_sums(sums, gpus, thresholds)
    return divergence.verdict if divergence else Verdict.INSUFFICIENT_DATA


def check(mfu: float, ofu: float, standard_error: float) -> None:
    """Raise ConfigError for a number that is negative, not finite or a percentage; it names the field."""
    for name, value, limit in (("mfu", mfu, quantities.MOST_EXPLAINED), ("ofu", ofu, OFU_LIMIT)):
        if isinstance(value, bool) or not math.isfinite(value) or value < 0:
            raise ConfigError(f"{name}: {value!r} is not a number of 0 or more")
        if value > limit:
            raise ConfigError(f"{name}: {value!r} is out of range; write {value / 100:.6g}")
    if not math.isfinite(standard_error) or standard_error < 0:
        raise ConfigError(f"ofu_stderr: {standard_error!r} is not a number of 0 or more")
    if standard_error > 1:
        raise ConfigError(f"ofu_stderr: {standard_error!r} is above 1; 1 point is 0.01")
