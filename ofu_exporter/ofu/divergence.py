"""Compares the MFU that a job reports with the OFU of its GPUs over the same seconds, and says whether they agree.

OFU counts every cycle of the tensor pipes, so with the same peak a report above it is over-counted; a report
below it leaves work out, of which a point or two is normal (tiles). "Instant GPU Efficiency Visibility at Fleet
Scale" (arXiv:2605.20799), section V-C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.values.reported import Compared, Verdict

MFU_LIMIT = 10.0
"""A wrong peak or GPU count makes an MFU of several times 1; beyond this it's a percentage."""
OFU_LIMIT = 1.5
"""Boost above the tensor clock takes OFU a little over 1, never here."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which difference on a report and OFU disagree. The larger of points and relative applies."""

    above: float = 0.02
    """Points (0.02 = 2) that MFU may be above OFU, beside the standard errors."""
    below: float = 0.05
    """Points that MFU may be below OFU."""
    above_relative: float = 0.0
    """The same as a share of OFU."""
    below_relative: float = 0.0
    standard_errors: float = 2.0
    """Standard errors of OFU that are added to what MFU may be above it."""
    hysteresis: float = 0.8
    """A verdict is left when the difference is below this share of the threshold that it took to reach it."""
    observed_seconds: float = 60.0
    """With less observed time there is no verdict."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not math.isfinite(value) or value < 0:
                raise ConfigError(f"{field.name}: {value!r} is not a number from 0 on")
        if self.hysteresis > 1:
            raise ConfigError(f"hysteresis: {self.hysteresis!r} is above 1")


DEFAULT = Thresholds()


@dataclass(frozen=True, slots=True)
class Divergence:
    """An MFU against an OFU."""

    difference: float
    """MFU - OFU."""
    relative: float | None
    """|MFU - OFU| / OFU; None where OFU is 0."""
    verdict: Verdict


def compare(
    mfu: float,
    ofu: float,
    *,
    standard_error: float = 0.0,
    observed_seconds: float = math.inf,
    thresholds: Thresholds = DEFAULT,
    previous: Verdict | None = None,
) -> Divergence:
    """Compare an MFU with the OFU of the same seconds, both 0..1.

    `observed_seconds`: how long OFU was observed; `previous`: the verdict before this one, which holds on until
    the difference is clearly inside the threshold again.

    Raises ConfigError for a number that is negative, not finite, or a percentage.
    """
    check(mfu, ofu, standard_error)
    if math.isnan(observed_seconds) or observed_seconds < 0:
        raise ConfigError(f"observed_seconds: {observed_seconds!r} is not a number from 0 on")
    seen = _Compared(mfu, ofu, standard_error, observed_seconds)
    return _compared(seen, thresholds, previous)


class _Compared(NamedTuple):
    mfu: float
    ofu: float
    standard_error: float
    observed_seconds: float


def _compared(seen: _Compared, thresholds: Thresholds, previous: Verdict | None) -> Divergence:
    mfu, ofu, standard_error, observed_seconds = seen
    difference = mfu - ofu
    relative = abs(difference) / ofu if ofu else None
    if observed_seconds < thresholds.observed_seconds:
        return Divergence(difference, relative, Verdict.INSUFFICIENT_DATA)
    above = max(thresholds.above, thresholds.above_relative * ofu)
    above += thresholds.standard_errors * standard_error
    below = max(thresholds.below, thresholds.below_relative * ofu)
    above *= thresholds.hysteresis if previous is Verdict.MFU_ABOVE_OFU else 1
    below *= thresholds.hysteresis if previous is Verdict.MFU_BELOW_OFU else 1
    verdict = Verdict.AGREE
    if difference > above:
        verdict = Verdict.MFU_ABOVE_OFU
    elif difference < -below:
        verdict = Verdict.MFU_BELOW_OFU
    return Divergence(difference, relative, verdict)


def compare_sums(
    sums: Compared,
    gpus: int = 1,
    thresholds: Thresholds = DEFAULT,
    previous: Verdict | None = None,
) -> Divergence | None:
    """Compare what was summed up; None where nothing was observed. `gpus`: how many the GPU-seconds are of.

    What was measured is compared as it is, also an OFU far above 1: with a wrong row in the configuration that is
    what the GPU shows, and no report is at fault.
    """
    mfu, ofu = sums.mfu, sums.ofu
    if mfu is None or ofu is None:
        return None
    seen = _Compared(mfu, ofu, min(sums.standard_error, 1.0), sums.gpu_seconds / max(gpus, 1))
    return _compared(seen, thresholds, previous)


def verdict(sums: Compared, gpus: int = 1, thresholds: Thresholds = DEFAULT) -> Verdict:
    """What a comparison of sums says."""
    found = compare_sums(sums, gpus, thresholds)
    return found.verdict if found else Verdict.INSUFFICIENT_DATA


def check(mfu: float, ofu: float, standard_error: float = 0.0) -> None:
    """Raise ConfigError for a number that is negative, not finite or a percentage; it names the field."""
    for name, value, limit in (("mfu", mfu, MFU_LIMIT), ("ofu", ofu, OFU_LIMIT)):
        if isinstance(value, bool) or not math.isfinite(value) or value < 0:
            raise ConfigError(f"{name}: {value!r} is not a number from 0 on")
        if value > limit:
            raise ConfigError(
                f"{name}: {value!r} is not a ratio of 1; if it is a percentage, give {value / 100:.6g}"
            )
    if not math.isfinite(standard_error) or standard_error < 0:
        raise ConfigError(f"ofu_stderr: {standard_error!r} is not a number from 0 on")
    if standard_error > 1:
        raise ConfigError(f"ofu_stderr: {standard_error!r} is above 1; 1 point is 0.01")
