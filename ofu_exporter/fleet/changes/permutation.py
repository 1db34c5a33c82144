"""Permutation test: how often the same noise in another order shows as clear a step."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

from ofu_exporter.fleet.changes.split import Search, Step, dot
from ofu_exporter.fleet.changes.tails import whitened

ORDERS = 999
"""Orders tried at most, so that the smallest probability is 1 in 1,000."""


def permuted(
    residuals: Sequence[float], search: Search, step: Step, alike: float, level: float
) -> float:
    """The share of orders in which a step gains as much. Of noise that is alike, the independent part is shuffled.

    No more orders are tried once the share must exceed the level.
    """
    square = dot(residuals, residuals)
    if square <= 0:
        return 1.0
    shuffler = random.Random(0)  # equal answers for equal data
    parts = whitened(residuals, alike)
    clear = 0
    for tried in range(1, ORDERS + 1):
        shuffler.shuffle(parts)
        other = search.plan.residuals(_coloured(parts, alike) if alike else parts)
        # as clear, but for rounding
        clear += search.best(other).gain / dot(other, other) >= step.gain / square * (1 - 1e-12)
        if clear >= level * (ORDERS + 1):
            return clear / tried
    return (clear + 1) / (ORDERS + 1)


def _coloured(parts: Iterable[float], alike: float) -> list[float]:
    """Noise in which `alike` times the value before is added to each value."""
    values: list[float] = []
    for part in parts:
        values.append(part + alike * values[-1] if values else part / math.sqrt(1 - alike * alike))
    return values
