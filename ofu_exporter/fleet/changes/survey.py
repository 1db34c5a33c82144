"""Looks for changes in all series of a fleet, and says which ones hold even though the series are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ofu_exporter.fleet.changes.alarms import most_false
from ofu_exporter.fleet.changes.alike import Likeness
from ofu_exporter.fleet.changes.point import IDLE_OFU, OfuPoint
from ofu_exporter.fleet.changes.segments import Break, breaks, learned
from ofu_exporter.fleet.changes_result import SeriesKind

SURE_LEVEL = 0.01
"""Chance that a sure change may have: in the whole report by the tails of distributions (Holm), and in its own series
by the orders of its points, which trust the noise less."""
REPORT_LEVEL = 0.02
"""Share of whole reports with a false sure change, as measured where it is largest (docs/changes.md): 2 of 120.
It is above SURE_LEVEL, because a series of few points does not tell its scatter well."""
FEWEST_POINTS = 9
"""Series with fewer points are left out: no order of so few is rare enough to show a change."""


@dataclass(frozen=True, slots=True)
class OfuSeries:
    """The points of one subject, in order of time."""

    kind: SeriesKind
    labels: tuple[tuple[str, str], ...]
    points: tuple[OfuPoint, ...]


@dataclass(frozen=True, slots=True)
class LevelChange:
    series: OfuSeries
    level: Break
    chance_in_report: float
    """Probability that any series of the report shows such a change while nothing changed (Holm)."""
    before: tuple[OfuPoint, ...]
    after: tuple[OfuPoint, ...]
    """The points between the change and the neighbouring ones."""

    @property
    def sure(self) -> bool:
        """Whether the change holds for the whole report, not only for its series, by both kinds of tests."""
        return max(self.chance_in_report, self.level.chance) <= SURE_LEVEL * (1 + 1e-9)

    @property
    def lost_gpu_hours(self) -> float:
        """GPU-hours that the work since then took more than at the level before; below 0, GPU-hours that it saved. It
        saved none where there was no work before, but for what the first and last point of that time have of it."""
        inner = self.before[1:-1]
        if 2 * sum(each.value < IDLE_OFU for each in inner) > len(inner):
            return 0.0
        return sum(each.gpu_hours for each in self.after) * (1 - self.level.factor)


@dataclass(frozen=True, slots=True)
class Survey:
    changes: tuple[LevelChange, ...]
    """Sure ones first, then by GPU-hours lost or saved."""
    tested: int
    expected_false: float
    """False alarms to be expected at most among the changes that are not sure, as long as neighbours are no more alike
    than was measured (`alarms`)."""
    likeness: Mapping[SeriesKind, Likeness]
    smaller: int
    """Changes that were found and are left out, because they are smaller than the least factor."""


def survey(series: Sequence[OfuSeries], least_factor: float) -> Survey:
    """Every change of all series by at least a factor, with its chance among that many."""
    long_enough = [each for each in series if len(each.points) >= FEWEST_POINTS]
    likeness = {
        kind: learned(each.points for each in long_enough if each.kind == kind)
        for kind in sorted({each.kind for each in long_enough})
    }
    with_breaks = [(each, breaks(each.points, likeness[each.kind])) for each in long_enough]
    changes = _changes(with_breaks)
    news = [
        each for each in changes if max(each.level.factor, 1 / each.level.factor) >= least_factor
    ]
    return Survey(
        changes=tuple(sorted(news, key=lambda each: (not each.sure, -abs(each.lost_gpu_hours)))),
        tested=len(long_enough),
        expected_false=sum(
            most_false(len(each.points), likeness[each.kind]) for each in long_enough
        ),
        likeness=likeness,
        smaller=len(changes) - len(news),
    )


def _changes(with_breaks: Sequence[tuple[OfuSeries, list[Break]]]) -> list[LevelChange]:
    adjusted = holm(
        [each.tail for _, breaks_ in with_breaks for each in breaks_],
        len(with_breaks) + sum(max(len(breaks_) - 1, 0) for _, breaks_ in with_breaks),
    )
    chances = iter(adjusted)
    return [
        LevelChange(series, level, max(next(chances), level.tail), before, after)
        for series, breaks_ in with_breaks
        for level, (before, after) in zip(breaks_, pairwise(_levels(series, breaks_)), strict=True)
    ]


def _levels(series: OfuSeries, breaks_: Sequence[Break]) -> list[tuple[OfuPoint, ...]]:
    marks = [0, *(each.index for each in breaks_), len(series.points)]
    return [series.points[start:end] for start, end in pairwise(marks)]


def holm(tails: Sequence[float], tests: int) -> list[float]:
    """Probabilities of one test each, adjusted so that a level holds for all tests together (Holm 1979)."""
    adjusted, worst = [1.0] * len(tails), 0.0
    for rank, place in enumerate(sorted(range(len(tails)), key=tails.__getitem__)):
        worst = max(worst, min(1.0, tails[place] * (tests - rank)))
        adjusted[place] = worst
    return adjusted
