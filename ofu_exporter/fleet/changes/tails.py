"""Probabilities of a step in noise: by the t distribution on whitened values, and by long-run variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ofu_exporter.fleet.changes.alike import MOST_ALIKE, long_likeness
from ofu_exporter.fleet.changes.point import NORMAL_MAD, RESOLUTION
from ofu_exporter.fleet.changes.split import (
    Layout,
    Search,
    Step,
    change_search,
    dot,
    layout,
    levelled,
)

PILOT = 5.0
"""Standard deviations beyond which a step does not count as noise when the noise is measured."""
MOST_WHITENED = 0.7
"""Above this likeness, one odd point of noise leaves such a long trail that it passes for a step of few points."""
REACH = 2.24
"""Normal standard errors of an interval of 95 % whose step was looked for; at a known place, 1.96 are enough."""
SUPPORT = 1.65
"""Standard errors by which the other points of a step must be off too. Noise is in 5 % of cases."""


LIKE_PEERS = 4
"""Points by which the scatter of a level is drawn to that of the other one: three points know little of theirs."""
GROWTH = 2.0
"""How many times the other level's scatter that is: scatter may have grown with the change."""


class WhitenedStep(NamedTuple):
    """A step by whitened values, with the standard error and the degrees of freedom of its height."""

    height: float
    error: float
    freedom: float

    @property
    def chance(self) -> float:
        """The probability of its t in normal noise."""
        return t_tail(abs(self.height) / self.error, self.freedom)

    @property
    def reach(self) -> float:
        """Half of the 95 % interval of the height: `REACH`, brought to t by the same approximation."""
        part = (8 * self.freedom + 1) / (8 * self.freedom + 3)
        square = (REACH / part) ** 2 / self.freedom
        return self.error * math.sqrt(self.freedom * math.expm1(square))


def t_tail(t: float, freedom: float) -> float:
    """Two-sided probability of Student's t, by Wallace's normal approximation."""
    normal = (8 * freedom + 1) / (8 * freedom + 3)
    normal *= math.sqrt(freedom * math.log1p(t * t / freedom))
    return math.erfc(normal / math.sqrt(2))


def skewed_tail(t: float, column: Sequence[float]) -> float:
    """The probability of this many standard errors in noise that is skewed as waiting times are.

    There, a point is now and then far off, always to one side. A sum of few has the tail of a gamma distribution, here
    by Wilson and Hilferty's approximation. `column` has the weight of each point in the sum: its skewness tells how
    many points of equal weight have that tail.
    """
    squares = math.fsum(weight**2 for weight in column)
    points = squares**3 / math.fsum(abs(weight) ** 3 for weight in column) ** 2
    ratio = 1 + t / math.sqrt(points)
    normal = 3 * math.sqrt(points) * (ratio ** (1 / 3) - 1 + 1 / (9 * points))
    return min(1.0, math.erfc(normal / math.sqrt(2)))


def whitened_step(values: Sequence[float], plan: Layout, step: Step, alike: float) -> WhitenedStep:
    """How high a step is where all points scatter the same.

    `alike` times the value before is subtracted from each value: what is left is independent.
    """
    fit = _fitted(values, plan, step, alike)
    freedom = len(values) - fit.columns
    scatter = math.sqrt(max(dot(fit.rest, fit.rest) / freedom, RESOLUTION**2))
    return WhitenedStep(fit.height, scatter / fit.length, freedom)


def unequal_step(values: Sequence[float], plan: Layout, step: Step, alike: float) -> WhitenedStep:
    """How high a step is where its two levels may scatter differently: Welch's t (Biometrika 34, 1947)."""
    fit = _fitted(values, plan, step, alike)
    within, beside = _sides(fit.rest, step), _sides(fit.base, step)
    counts = [max(len(side) - 1, 1) for side in within]
    variances = [
        max(dot(side, side) / count, RESOLUTION**2)
        for side, count in zip(within, counts, strict=True)
    ]
    parts = [
        dot(base, base) * (count * mine + LIKE_PEERS * GROWTH**2 * other) / (count + LIKE_PEERS)
        for base, count, mine, other in zip(
            beside, counts, variances, reversed(variances), strict=True
        )
    ]
    freedoms = [count + LIKE_PEERS for count in counts]
    variance = sum(parts)
    freedom = variance**2 / sum(part**2 / each for part, each in zip(parts, freedoms, strict=True))
    freedom = min(freedom, len(values) - fit.columns)
    return WhitenedStep(fit.height, math.sqrt(variance) / fit.length, freedom)


def sure_tail(values: Sequence[float], plan: Layout, step: Step, alike: float) -> float:
    """The probability of a step in noise that may be skewed, and may scatter more on one side of it."""
    step_found = unequal_step(values, plan, step, alike)
    inside = [float(step.start <= at < step.end) for at in range(plan.count)]
    t, outside = abs(step_found.height) / step_found.error, [1 - each for each in inside]
    return max(
        step_found.chance, *(skewed_tail(t, whitened(each, alike)) for each in (inside, outside))
    )


def _sides(values: Sequence[float], step: Step) -> tuple[list[float], list[float]]:
    return list(values[step.start : step.end]), [*values[: step.start], *values[step.end :]]


def whitened(values: Sequence[float], alike: float) -> list[float]:
    """Each value minus `alike` times the value before; the first is brought to the same scale."""
    first = values[0] * math.sqrt(1 - alike * alike)
    return [first, *(after - alike * before for before, after in pairwise(values))]


class _Fit(NamedTuple):
    """Least squares of a step on whitened values."""

    height: float
    base: list[float]
    """The step's column less what the others explain, of length 1."""
    length: float
    rest: list[float]
    """What nothing explains."""
    columns: int


def _fitted(values: Sequence[float], plan: Layout, step: Step, alike: float) -> _Fit:
    inside = [float(step.start <= at < step.end) for at in range(plan.count)]
    columns = [[1.0] * plan.count, *([list(plan.size)] if plan.size else []), inside]
    bases: list[list[float]] = []
    length = 0.0
    for column in columns:
        rest = _less(whitened(column, alike), bases)
        length = math.sqrt(dot(rest, rest))
        bases.append([value / length for value in rest])
    parts = whitened(values, alike)
    return _Fit(dot(parts, bases[-1]) / length, bases[-1], length, _less(parts, bases), len(bases))


def _less(values: list[float], bases: list[list[float]]) -> list[float]:
    """The part of the values that the bases do not explain; each base has length 1, and all are orthogonal."""
    for base in bases:
        share = dot(values, base)
        values = [value - share * part for value, part in zip(values, base, strict=True)]
    return values


def long_tail(logs: Sequence[float], values: Sequence[float], search: Search, step: Step) -> float:
    """The probability that noise makes such a step anywhere in a long series; `values` are logs with odd ones clipped.

    Two tests share that probability. One goes by long-run variance, which needs no model of the noise. It is too mild
    with a step of few points, so the other goes by whitened values. The second one gets the smaller share.
    """
    plan = search.plan
    residuals = plan.residuals(values)
    rest, alike = long_noise(residuals, step)
    if not supported(plan.residuals(logs), rest, step, alike):
        return 1.0
    chance = 2 * _long_run_tail(rest, step, plan.size is not None)
    if alike <= MOST_WHITENED:
        chance = min(chance, 4 * whitened_step(values, plan, step, alike).chance)
    return min(1.0, len(search.steps) * chance)


def long_noise(residuals: Sequence[float], step: Step) -> tuple[list[float], float]:
    """What is left of a long series without its clear steps and this one, and how alike neighbours in it are."""
    rest = levelled(residuals, [*pilot(residuals), *step.ends])
    return rest, min(long_likeness(rest) + 1 / math.sqrt(len(rest)), MOST_ALIKE)  # rather too alike


def supported(residuals: Sequence[float], rest: Sequence[float], step: Step, alike: float) -> bool:
    """Whether a step is still there without its most extreme point, and without the trail of that point in alike noise.

    No value may be clipped here: a trail that is cut off looks like a level.
    """
    short, large = residuals[step.start : step.end], residuals[: step.start]
    if len(short) > len(large) and step.end == len(residuals):
        short, large = large, short
    else:
        large = [*large, *residuals[step.end :]]
    middle = median(large)
    parts = whitened([value - middle for value in short], alike)
    sign = math.copysign(1.0, math.fsum(parts))
    others = sorted(sign * part for part in parts)[:-1]
    noise = whitened(rest, alike)
    scatter = max(math.sqrt(dot(noise, noise) / len(noise)), RESOLUTION)
    return math.fsum(others) >= SUPPORT * scatter * math.sqrt(len(others))


def _long_run_tail(rest: Sequence[float], step: Step, sized: bool) -> float:
    """The probability that noise makes the CUSUM of one step, by long-run variance of what all clear steps leave."""
    freedom = len(rest) - 2 - sized
    variance = max(dot(rest, rest) / freedom, RESOLUTION**2)
    inflation = long_run_inflation(rest)
    t = math.sqrt(step.gain / (variance * inflation))
    return t_tail(t, max(freedom / inflation, 2.0))


def long_run_inflation(rest: Sequence[float]) -> float:
    """Long-run variance / variance: by the likeness of neighbours or by Bartlett's sum, whichever is more."""
    count, squares, alike = len(rest), dot(rest, rest), long_likeness(rest)
    neighbours = (1 + alike) / (1 - alike)
    if squares <= 0:
        return neighbours
    # Andrews' bandwidth for first-order autocorrelation (Econometrica 59, 1991, eq. 6.4)
    width = 1.1447 * (4 * alike**2 / (1 - alike**2) ** 2 * count) ** (1 / 3)
    lags = min(int(width), count // 5)
    bartlett = 1.0 + 2 * sum(
        (1 - lag / (lags + 1)) * dot(rest[:-lag], rest[lag:]) / squares
        for lag in range(1, lags + 1)
    )
    return max(neighbours, bartlett / (1 - lags / count))


def pilot(residuals: Sequence[float], start: int = 0) -> list[int]:
    """Where a series changes so clearly that no measure of its noise may hold it for noise.

    The measure of noise here is of differences of neighbours, which a few steps hardly touch.
    """
    search = change_search(layout(len(residuals)))
    if search is None:
        return []
    step = search.best(residuals)
    if step.gain <= PILOT**2 * _local_variance(residuals):
        return []
    left, right = (
        levelled(each, []) for each in (residuals[: step.start], residuals[step.start :])
    )
    middle = start + step.start
    return [*pilot(left, start), middle, *pilot(right, middle)]


def _local_variance(values: Sequence[float]) -> float:
    """Long-run variance of first-order noise, from the spread of its differences over one and over two points."""
    one, two = _spread(values, 1), _spread(values, 2)
    if one <= 0:
        return RESOLUTION**2
    alike = min(max(two / one - 1, 0.0), 0.9)
    return max(one * (1 + alike) / (2 * (1 - alike) ** 2), RESOLUTION**2)


def _spread(values: Sequence[float], lag: int) -> float:
    """Variance of the differences, robustly."""
    differences = zip(values, values[lag:], strict=False)
    return float((NORMAL_MAD * median(abs(b - a) for a, b in differences)) ** 2)
