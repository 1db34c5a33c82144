"""How many changes that are none a series shows at most, by measurement on noise.

A series with too little beside it does not tell how alike its neighbours are, so the accepted chance of a false alarm
says too little there. These bounds hold up to an autocorrelation of 0.8 (tests/measured/changes.md).
"""

from __future__ import annotations

from ofu_exporter.fleet.changes.alike import Likeness
from ofu_exporter.fleet.changes.segments import SHORT, accepted

ALIKE = 0.8
"""Autocorrelation up to which the bounds were measured."""
UNKNOWN = 0.75
"""False alarms of a short series where nothing else tells how alike neighbours are."""
OF_FEW = 2.0
"""False alarms of a short series beyond the accepted ones, times the series that its likeness is known from."""
OF_LONG = 15.0
"""False alarms of a long series, times its points: autocorrelation of few points is underrated, and parts are tested
again."""


def most_false(count: int, likeness: Likeness) -> float:
    """False alarms to be expected at most in a series of this many points."""
    if count >= SHORT:
        return max(accepted(count), OF_LONG / count)
    few = OF_FEW / likeness.series if likeness.series else UNKNOWN
    return min(accepted(count) + few, UNKNOWN)
