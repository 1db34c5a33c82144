"""Probability that the order of the values alone makes a step: by ranks, and by permutation.

The rank sum of Wilcoxon is exact for few points. Noise with heavy tails, or with some jobs much worse than usual, makes
a stretch of odd points look like a level to a test that trusts sizes. Its ranks are those of any other noise.
"""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache

from ofu_exporter.fleet.changes.split import Search, Step, dot
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
    """Two-sided probability that a stretch of independent values is as low, or as high, by the sum of its ranks.

    Equal values have no order. They get the one that makes the stretch least remarkable.
    """
    count, points = len(values), end - start
    if 2 * points > count:  # the rest says the same, and is fewer
        values = [*values[:start], *values[end:], *values[start:end]]
        start, end, points = 0, count - points, count - points
    inside, outside = values[start:end], sorted([*values[:start], *values[end:]])
    fewest = sum(bisect_left(outside, value) for value in inside)
    most = sum(bisect_right(outside, value) for value in inside)
    pairs = points * (count - points)
    above = min(most, pairs - fewest, pairs // 2)
    if points <= EXACT:
        return min(1.0, 2 * _orders(points, count - points, above) / math.comb(count, points))
    spread = math.sqrt(points * (count - points) * (count + 1) / 12)
    distance = pairs / 2 - above - 0.5
    return math.erfc(max(distance, 0.0) / spread / math.sqrt(2))


def _orders(points: int, others: int, above: int) -> int:
    """Sets of ranks whose sum is at most this much above the lowest possible.

    They are partitions into at most `others` parts of at most `points`, which the Gaussian binomial coefficient counts.
    """
    ways = [1] + [0] * above
    for part in range(1, points + 1):
        for total in range(part, above + 1):
            ways[total] += ways[total - part]
        for total in range(above, others + part - 1, -1):
            ways[total] -= ways[total - others - part]
    return sum(ways)


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
    parts = whitened(residuals, alike)
    clear = 0
    for tried, order in enumerate(_shuffled(len(parts)), 1):
        shuffled = [parts[place] for place in order]
        other = search.plan.residuals(_coloured(shuffled, alike) if alike else shuffled)
        # as clear, but for rounding
        clear += search.best(other).gain / dot(other, other) >= step.gain / square * (1 - 1e-12)
        if clear >= level * (ORDERS + 1):
            return clear / tried
    return (clear + 1) / (ORDERS + 1)


@cache
def _shuffled(count: int) -> tuple[array[int], ...]:
    """The orders of this number of values that are tried: the same each time, so equal data give equal answers."""
    shuffler, places, orders = random.Random(0), list(range(count)), []
    for _ in range(ORDERS):
        shuffler.shuffle(places)
        orders.append(array("H", places))
    return tuple(orders)


def _coloured(parts: Iterable[float], alike: float) -> list[float]:
    """Noise in which `alike` times the value before is added to each value."""
    values: list[float] = []
    for part in parts:
        values.append(part + alike * values[-1] if values else part / math.sqrt(1 - alike * alike))
    return values
