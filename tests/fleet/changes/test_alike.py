"""How alike neighbours are: what is found in noise whose likeness is known."""

from __future__ import annotations

import math
import random

import pytest

from ofu_exporter.fleet.changes.alike import ENOUGH, MOST_ALIKE, Likeness, long_likeness, pooled
from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.segments import learned


def noise(count: int, alike: float, rng: random.Random) -> list[float]:
    values = [rng.gauss(0, 1)]
    while len(values) < count:
        values.append(alike * values[-1] + math.sqrt(1 - alike**2) * rng.gauss(0, 1))
    return values


def points(values: list[float]) -> list[OfuPoint]:
    return [OfuPoint(3600.0 * at, 0.4 * math.exp(0.1 * each)) for at, each in enumerate(values)]


@pytest.mark.parametrize("alike", [0.0, 0.3, 0.5, 0.7, 0.8, 0.9])
def test_many_short_series_together_know_their_likeness(alike: float) -> None:
    rng = random.Random(1)
    series = [points(noise(rng.randint(12, 40), alike, rng)) for _ in range(300)]
    assert learned(series).value == pytest.approx(alike, abs=0.05)


def test_changes_of_level_are_no_likeness() -> None:
    rng = random.Random(2)
    series = []
    for _ in range(100):
        values = noise(20, 0.0, rng)
        series.append(points([value + 8 * (index >= 10) for index, value in enumerate(values)]))
    assert learned(series).value < 0.1


def test_one_short_series_is_hardly_believed() -> None:
    trend = [float(index) for index in range(-7, 7)]
    assert 0 < pooled([trend]).value < 0.6
    assert pooled([]).value == 0.0
    assert learned([points([1.0, 2.0]), []]) == Likeness()


def test_what_may_be_sure_begins_with_neighbours_that_are_very_alike() -> None:
    few, many = Likeness(0.1, 20), Likeness(0.1, 100_000)
    assert few.at_most(0.1, 20) > 0.8
    assert many.at_most(0.1, 20) == pytest.approx(0.1, abs=0.02)
    assert many.at_most(0.5, 20) > 0.5
    assert not few.knows_enough(ENOUGH - 1)
    assert few.knows_enough(ENOUGH)
    assert many.knows_enough(9)


def test_a_short_series_is_drawn_to_the_fleet() -> None:
    rest = [1.0, -1.0] * 8
    assert 0.3 < Likeness(0.7).of(rest) < 0.6
    assert Likeness(0.0).of(rest) == 0.0


def test_one_too_short_to_tell_has_that_of_the_fleet() -> None:
    assert Likeness(0.4).of([1.0, -1.0] * 5 + [1.0]) == 0.4
    assert Likeness(0.4).of([1.0, -1.0] * 6) < 0.3


def test_no_series_is_told_that_it_wanders_without_end() -> None:
    """A line has no likeness that could explain it: the equation has no root."""
    line = [float(index) for index in range(-6, 7)]
    assert pooled([line] * 200).value == MOST_ALIKE
    assert Likeness(MOST_ALIKE).of(line) == MOST_ALIKE


def test_a_long_series_speaks_for_itself() -> None:
    found = [long_likeness(noise(300, 0.5, random.Random(seed))) for seed in range(20)]
    assert sum(found) / 20 == pytest.approx(0.5, abs=0.05)
    assert long_likeness([0.0] * 60) < 0.02
    assert long_likeness([float(index) for index in range(-200, 200)]) == MOST_ALIKE
