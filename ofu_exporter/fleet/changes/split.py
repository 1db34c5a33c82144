"""The best step in a series, by CUSUM, with what the sizes of jobs explain taken out first.

A step is a stretch of the series that has another level than the rest: one that reaches to an end is a change, one
inside is a change and its undoing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise, starmap
from operator import itemgetter, mul, sub

FEWEST_BESIDE = 3
"""Fewest points of a step, and of the rest."""
LEAST_OWN = 0.1
"""Part of a step that the sizes of jobs must leave unexplained. With less, step and size cannot be told apart."""
LONGEST_ARC = 50
"""Points of a step inside a series, at most. Longer ones are found as two changes."""
LAST_SEARCHES = 4
"""Most searches that are kept. Series of one kind are alike: as many points, and jobs of one size."""


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of a series, and how much less the sum of squares is when it has a level of its own."""

    start: int
    end: int
    gain: float

    @property
    def ends(self) -> tuple[int, int]:
        """Where it begins and ends; one of them may be an end of the series."""
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class Layout:
    """What is the same for every order of the values: their number, and the sizes of the jobs."""

    count: int
    size: tuple[float, ...] | None
    """Centred, of length 1; None where size explains nothing."""
    explained: tuple[float, ...]
    """Sums of `size` up to every point."""

    def residuals(self, values: Sequence[float]) -> list[float]:
        """The values without their mean, and without what the sizes explain of them."""
        rest = centred(values)
        if self.size is None:
            return rest
        slope = dot(rest, self.size)
        return [value - slope * size for value, size in zip(rest, self.size, strict=True)]

    def weight(self, start: int, end: int) -> float:
        """1 / squared length of a step, less what size explains of it; 0 where the two can't be told apart."""
        whole = (end - start) * (self.count - end + start) / self.count
        unexplained = whole - (self.explained[end] - self.explained[start]) ** 2
        return 1 / unexplained if unexplained > LEAST_OWN * whole else 0.0


class Search:
    """Steps to choose among, with their weights: the same for every order of the values."""

    def __init__(self, plan: Layout, steps: Sequence[tuple[int, int]]) -> None:
        self.plan = plan
        self.steps = steps
        self._weights = [plan.weight(*each) for each in steps]
        self._starts = itemgetter(*(start for start, _ in steps), 0)
        self._ends = itemgetter(*(end for _, end in steps), 0)

    def best(self, residuals: Sequence[float]) -> Step:
        """The step that explains most."""
        gains = list(self._gains(residuals))
        gain = max(gains)
        return Step(*self.steps[gains.index(gain)], gain)

    def most(self, residuals: Sequence[float]) -> float:
        """What the best step gains, without asking which it is."""
        return max(self._gains(residuals))

    def _gains(self, residuals: Sequence[float]) -> Iterable[float]:
        """What each step explains: the square of the CUSUM over it, times its weight."""
        sums = list(accumulate(residuals, initial=0.0))
        inside = list(map(sub, self._ends(sums), self._starts(sums)))
        return map(mul, map(mul, inside, inside), self._weights)


def layout(count: int, sizes: Sequence[float] | None = None) -> Layout:
    size = _unit(sizes) if sizes is not None else None
    return Layout(count, size, tuple(accumulate(size or [0.0] * count, initial=0.0)))


@lru_cache(LAST_SEARCHES)
def change_search(plan: Layout) -> Search | None:
    """Steps that reach to the end of the series: the changes that did not end. None for too few points."""
    steps = [(at, plan.count) for at in range(FEWEST_BESIDE, plan.count - FEWEST_BESIDE + 1)]
    return Search(plan, steps) if steps else None


@lru_cache(LAST_SEARCHES)
def arc_search(plan: Layout) -> Search | None:
    """Steps inside the series: the changes that ended again."""
    last = plan.count - FEWEST_BESIDE
    steps = [
        (start, end)
        for start in range(FEWEST_BESIDE, last - FEWEST_BESIDE + 1)
        for end in range(start + FEWEST_BESIDE, min(start + LONGEST_ARC, last) + 1)
    ]
    return Search(plan, steps) if steps else None


def levelled(values: Sequence[float], marks: Sequence[int]) -> list[float]:
    """What is left of values when each part between marks has its own mean."""
    ends = sorted({0, *marks, len(values)})
    return [value for start, end in pairwise(ends) for value in centred(values[start:end])]


def centred(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    products: Iterable[float] = starmap(mul, zip(left, right, strict=True))
    return sum(products)


def _unit(column: Sequence[float]) -> tuple[float, ...] | None:
    centre = centred(column)
    length = math.sqrt(dot(centre, centre))
    return tuple(value / length for value in centre) if length > 1e-9 else None
