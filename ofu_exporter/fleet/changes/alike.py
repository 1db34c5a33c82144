"""How alike the noise of neighbours in a series is: autocorrelation, less its bias in short series.

Jobs that follow each other share code, data and nodes, so their OFU scatters together. Whoever takes such points as
independent sees changes everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ofu_exporter.fleet.changes.split import dot

MOST_ALIKE = 0.95
"""Closer to 1, a series wanders and has no level that could change."""
FLEET_WEIGHT = 40
"""Points that the likeness of the fleet counts for beside a series' own: a short one says little of its own."""
BIAS = (3.0, 4.8, 5.0)
"""What the plain estimate lacks, times points: 3 + 4.8 a + 5 a^2 of a truth a, measured on normal noise of 12 to 40
points after the best step. Of one level that lasts it is 1 + 4 a (Marriott and Pope, Biometrika 41, 1954)."""
PESSIMISTIC, PESSIMISM = 0.9, 50
"""The likeness that is assumed before anything is known, and the points that this counts for, where something is to be
sure."""
ENOUGH = 60
"""Points of all series together from which their likeness is known well enough to be sure of anything."""
FEWEST_IN_SERIES = 12
"""Fewest points of a series whose own likeness is estimated: in shorter ones the estimate is nearly all bias."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Autocorrelation from one point to the next, of many series together. Where none is known it is 0."""

    value: float = 0.0
    points: int = 0
    """Points that it is known from."""
    series: int = 0
    """Series that these are of."""

    def knows_enough(self, count: int) -> bool:
        """Whether anything can be sure in a series of this many points."""
        return max(self.points, count) >= ENOUGH

    def at_most(self, alike: float, count: int) -> float:
        """What the likeness of a series of this many points hardly exceeds, with `alike` for its likeliest value."""
        larger, points = max(alike, self.value), max(self.points, count)
        mean = (larger * points + PESSIMISTIC * PESSIMISM) / (points + PESSIMISM)
        return _bounded(mean + 2 * math.sqrt((1 - larger * larger) / points))

    def of(self, rest: Sequence[float]) -> float:
        """The likeness of a short series, from what its best step leaves: its own, pulled towards that of all."""
        count = len(rest)
        if count < FEWEST_IN_SERIES:
            return self.value
        weighted = count * _autocorrelation(rest) + self.value * FLEET_WEIGHT
        return _unbiased(weighted, count + FLEET_WEIGHT, 1)


def long_likeness(rest: Sequence[float]) -> float:
    """The likeness of a long series, which has enough points to show its own."""
    estimate = _autocorrelation(rest)
    return _bounded(estimate + (1 + 4 * estimate) / len(rest))


def pooled(rests: Iterable[Sequence[float]]) -> Likeness:
    """The likeness of many series, from what their steps leave, less its bias; near 0 where points are few."""
    weighted, weight, number, points = 0.0, FLEET_WEIGHT, 0, 0
    for rest in rests:
        weighted += len(rest) * _autocorrelation(rest)
        points += len(rest)
        number += 1
    return Likeness(_unbiased(weighted, weight + points, number), points, number)


def _autocorrelation(rest: Sequence[float]) -> float:
    """The plain estimate of the autocorrelation in what a step leaves."""
    squares = dot(rest, rest)
    return dot(rest[:-1], rest[1:]) / squares if squares > 0 else 0.0


def _unbiased(weighted: float, weight: float, number: int) -> float:
    """The truth that makes a number of series look like this.

    `weighted` is the sum of their estimates, each times its points, and `weight` that of the points. Solves
    weight x truth - number x bias(truth) = weighted, whose smaller root is the one near the estimate.
    """
    constant, slope, square = (number * part for part in BIAS)
    wanted, free_weight = weighted + constant, weight - slope
    root = free_weight * free_weight - 4 * square * wanted
    if root <= 0:
        return MOST_ALIKE
    return _bounded(2 * wanted / (free_weight + math.sqrt(root)))


def _bounded(value: float) -> float:
    return min(max(value, 0.0), MOST_ALIKE)
