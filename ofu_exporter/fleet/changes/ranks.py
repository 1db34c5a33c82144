"""Probability that the order of the values alone makes a step: the rank sum of Wilcoxon, exact for few points.

Noise with heavy tails, or with some jobs much worse than usual, makes a stretch of odd points look like a level to a
test that trusts sizes. Its ranks are those of any other noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ofu_exporter.fleet.changes.split import Step
from ofu_exporter.fleet.changes.tails import whitened

EXACT = 12
"""Points of a step up to which orders are counted. Of more, the normal approximation is near, and on the safe side."""


def by_order(residuals: Sequence[float], noise: Sequence[float], step: Step, alike: float) -> float:
    """The probability that noise in any order puts such ranks into this step; `noise` is what is left without steps."""
    inside = residuals[step.start : step.end]
    outside = [*residuals[: step.start], *residuals[step.end :]]
    height = math.fsum(inside) / len(inside) - math.fsum(outside) / len(outside)
    values = [
        value + height * (step.start <= place < step.end) for place, value in enumerate(noise)
    ]
    return rank_tail(whitened(values, alike), step.start, step.end)


def rank_tail(values: Sequence[float], start: int, end: int) -> float:
    """Two-sided probability that a stretch of independent values is as low, or as high, by the sum of its ranks."""
    count, points = len(values), end - start
    if 2 * points > count:  # the rest says the same, and is fewer
        values, start, end, points = _turned(values, start, end), 0, count - points, count - points
    order = sorted(range(count), key=values.__getitem__)
    total = sum(rank for rank, place in enumerate(order, 1) if start <= place < end)
    lowest = points * (points + 1) // 2
    above = min(total - lowest, points * (count - points) - (total - lowest))
    if points <= EXACT:
        return min(1.0, 2 * _orders(points, above) / math.comb(count, points))
    spread = math.sqrt(points * (count - points) * (count + 1) / 12)
    distance = points * (count - points) / 2 - above - 0.5
    return math.erfc(max(distance, 0.0) / spread / math.sqrt(2))


def _turned(values: Sequence[float], start: int, end: int) -> list[float]:
    """The values outside a stretch, and then those inside."""
    return [*values[:start], *values[end:], *values[start:end]]


def _orders(points: int, above: int) -> int:
    """Sets of so few ranks whose sum is at most this much above the lowest possible: partitions, counted."""
    ways = [1] + [0] * above
    for part in range(1, points + 1):
        for total in range(part, above + 1):
            ways[total] += ways[total - part]
    return sum(ways)
