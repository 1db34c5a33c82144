"""Binary segmentation: the levels that a series went through, and how sure each change is.

A probability that the order of the values alone makes a step is by ranks, or by permutation. The rank sum of Wilcoxon
is exact for few points. Noise with heavy tails, or with some jobs much worse than usual, makes a stretch of odd points
look like a level to a test that trusts sizes. Its ranks are those of any other noise.
"""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ofu_exporter.fleet.changes.alike import FEWEST_IN_SERIES, Likeness, pooled
from ofu_exporter.fleet.changes.point import OfuPoint, logs, prepared, sizes
from ofu_exporter.fleet.changes.split import (
    Layout,
    Search,
    Step,
    arc_search,
    change_search,
    dot,
    layout,
    levelled,
)
from ofu_exporter.fleet.changes.tails import (
    long_noise,
    long_tail,
    sure_tail,
    unequal_step,
    whitened,
)

SHORT = 50
"""Series with fewer points are judged by permutation: their long-run variance isn't known well enough."""
SHORT_LEVEL, LONG_LEVEL = 0.05, 0.01
"""Accepted chance of a false alarm: in a short series, and in a long one."""
CHANGE_SHARE, ARC_SHARE = 0.65, 0.1
"""Parts of that chance: for a change that lasts, and for one that ended again. The rest is for later splits."""
BY_ORDER = 0.5
"""Chance of a step by the order of the values alone, over all steps, that is just accepted. Steps that overlap are
nearly one, so their number makes the chance too large. It nears 1 where few values are far off, or scatter changes."""


@dataclass(frozen=True, slots=True)
class Break:
    """A change of level between two neighbours of a series."""

    index: int
    """Index of the first point after the change."""
    factor: float
    """Level after / level before; at equal size of jobs, where size explains a part."""
    factor_low: float
    factor_high: float
    """95 % interval of the factor."""
    chance: float
    """Probability that this series shows such a change anywhere while nothing changed."""
    tail: float
    """The same probability by the t distribution, with neighbours as alike as they may be; 1 where that is not known.
    It can be smaller than a permutation of few points shows, but assumes more of the noise."""
    before: float
    after: float
    """Geometric means of the points up to the neighbouring changes, odd ones clipped."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One or two ends of a step, and the probability that noise makes the step."""

    ends: tuple[int, ...]
    chance: float
    tail: float


class _End(NamedTuple):
    """One end of a step."""

    place: int
    chance: float
    tail: float


def breaks(points: Sequence[OfuPoint], fleet: Likeness) -> list[Break]:
    """Every change of a series' level, in order of time. The fleet's likeness helps where the series is short."""
    steps = _steps(points, fleet, 0, accepted(len(points)))
    ends = sorted(_End(place, each.chance, each.tail) for each in steps for place in each.ends)
    marks = [0, *(end.place for end in ends), len(points)]
    spans = [points[start:end] for start, end in pairwise(marks)]
    return [
        _described(each, left, right, fleet)
        for each, (left, right) in zip(ends, pairwise(spans), strict=True)
    ]


def accepted(count: int) -> float:
    """Accepted chance of a false alarm in a series with this number of points."""
    return SHORT_LEVEL if count < SHORT else LONG_LEVEL


def _steps(points: Sequence[OfuPoint], fleet: Likeness, at: int, level: float) -> Iterator[_Found]:
    """The clearest step, then those of the parts between its ends, each at its share of the level."""
    clearest = _clearest(points, fleet, level)
    if clearest is None:
        return
    yield _Found(tuple(at + end for end in clearest.ends), clearest.chance, clearest.tail)
    for start, end in pairwise([0, *clearest.ends, len(points)]):
        part = points[start:end]
        share = len(part) / len(points)
        yield from _steps(part, fleet, at + start, accepted(len(part)) * share)


def _clearest(points: Sequence[OfuPoint], fleet: Likeness, level: float) -> _Found | None:
    """The clearest change that lasts, else the clearest that ended again, if noise hardly makes such a one."""
    if not points:
        return None
    plan = layout(len(points), sizes(points))
    for kind, share in ((change_search, CHANGE_SHARE), (arc_search, ARC_SHARE)):
        search = kind(plan)
        judged = _judged(points, search, fleet, share * level) if search else None
        if judged is not None and judged.chance <= share * level:
            return replace(judged, chance=judged.chance / share, tail=min(1.0, judged.tail / share))
    return None


def _judged(points: Sequence[OfuPoint], search: Search, fleet: Likeness, level: float) -> _Found:
    """The best step of a search with its probability in noise: by the test that fits the number of points."""
    plan, values = search.plan, prepared(points)
    residuals = plan.residuals(values)
    step = search.best(residuals)
    ends = tuple(end for end in step.ends if end < plan.count)
    if step.gain <= 0:
        return _Found(ends, 1.0, 1.0)
    rest, alike = _noise(plan, residuals, step, fleet)
    order = len(search.steps) * by_order(residuals, rest, step, alike)
    if order * accepted(plan.count) > BY_ORDER * level:
        return _Found(ends, 1.0, 1.0)
    tail = 1.0
    if fleet.knows_enough(plan.count):
        most = fleet.at_most(alike, plan.count)
        tail = min(1.0, len(search.steps) * sure_tail(values, plan, step, most))
    if plan.count >= SHORT:
        chance = long_tail(logs(points), values, search, step)
        return _Found(ends, chance, max(chance, tail))
    return _Found(ends, permuted(residuals, search, step, alike, level), tail)


def _noise(
    plan: Layout, residuals: Sequence[float], step: Step, fleet: Likeness
) -> tuple[list[float], float]:
    """What a step leaves, and how alike neighbours in it are."""
    if plan.count >= SHORT:
        return long_noise(residuals, step)
    rest = levelled(residuals, step.ends)
    return rest, fleet.of(rest)


def learned(series: Iterable[Sequence[OfuPoint]]) -> Likeness:
    """How alike neighbours are in many series together."""
    return pooled(rest for points in series if (rest := _quiet(points)))


def _quiet(points: Sequence[OfuPoint]) -> list[float]:
    """What the clearest steps of a series leave; nothing of one that is too short to tell."""
    plan = layout(len(points), sizes(points) if points else None)
    search = change_search(plan) if len(points) >= FEWEST_IN_SERIES else None
    if search is None:
        return []
    residuals = plan.residuals(prepared(points))
    rest, _ = _noise(plan, residuals, search.best(residuals), Likeness())
    return rest


def _described(
    end: _End, left: Sequence[OfuPoint], right: Sequence[OfuPoint], fleet: Likeness
) -> Break:
    """A change with its size, from the points up to the neighbouring changes."""
    values, count = [*prepared(left), *prepared(right)], len(left) + len(right)
    plan = layout(count, sizes([*left, *right]))
    step = Step(len(left), count, 0.0)
    if plan.weight(*step.ends) == 0:  # size and change can't be told apart
        plan = layout(count)
    _, alike = _noise(plan, plan.residuals(values), step, fleet)
    likely, worst = (
        unequal_step(values, plan, step, each) for each in (alike, fleet.at_most(alike, count))
    )
    height = likely.height
    reach = max(likely.reach, worst.reach) + abs(worst.height - height)
    return Break(
        end.place,
        math.exp(height),
        math.exp(height - reach),
        math.exp(height + reach),
        end.chance,
        end.tail,
        math.exp(math.fsum(values[: len(left)]) / len(left)),
        math.exp(math.fsum(values[len(left) :]) / len(right)),
    )


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
        shuffled = list(map(parts.__getitem__, order))
        other = search.plan.residuals(_coloured(shuffled, alike) if alike else shuffled)
        # as clear, but for rounding
        clear += search.most(other) / dot(other, other) >= step.gain / square * (1 - 1e-12)
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


def _coloured(parts: Sequence[float], alike: float) -> list[float]:
    """Noise in which `alike` times the value before is added to each value."""
    value = parts[0] / math.sqrt(1 - alike * alike)
    values = [value]
    for part in parts[1:]:
        value = part + alike * value
        values.append(value)
    return values
