"""Measures how far a reported MFU and an OFU are from the values that a cause would give, in standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

COUNTED = 0.01
"""The relative error of an MFU that is computed from a throughput."""
CLOCK = 0.006
"""The relative error of NVML's clock, and with it of OFU, in most windows (docs/hardware.md)."""
DIGITS = 0.0005
"""Its absolute error: jobs report three digits after the decimal point."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio, or a range of them."""

    low: float = 1.0
    high: float = 1.0

    def times(self, other: Ratio) -> Ratio:
        return Ratio(self.low * other.low, self.high * other.high)

    def nearest(self, value: float) -> float:
        return min(max(value, self.low), self.high)


def of_report(reported: float, right: float, ratio: Ratio) -> float:
    """Standard errors between a reported MFU and the right one times a ratio."""
    expected = right * ratio.nearest(reported / right)
    return abs(reported - expected) / math.hypot(COUNTED * expected, DIGITS)


def of_hardware(mfu: float, ofu_and_error: tuple[float, float], ratio: Ratio) -> float:
    """Standard errors between OFU and the OFU that follows from an MFU and a ratio.

    The error is known for OFU itself. The error of a ratio is not symmetric, and has no bound if OFU is close to 0.
    So the two are compared as OFU. `ofu_and_error` is in points of 1.
    """
    ofu, standard_error = ofu_and_error
    expected = min(max(ofu, mfu / ratio.high), mfu / ratio.low)
    error = math.hypot(standard_error, expected * CLOCK)
    return abs(ofu - expected) / max(error, 1e-12)
