"""Many series at once: what is sure, what is only possible, and what is said of the rest."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.survey import (
    FEWEST_POINTS,
    SURE_LEVEL,
    LevelChange,
    OfuSeries,
    holm,
    survey,
)
from tests.bench.changes import fleet_of, possible_in_quiet

LEAST = 1.1


def series(name: str, count: int, seed: int, factor: float = 1.0, after: int = 3) -> OfuSeries:
    rng = random.Random(seed)
    fall = [factor if index >= count - after else 1.0 for index in range(count)]
    points = tuple(
        OfuPoint(
            3600.0 * index, 0.4 * each * math.exp(0.08 * rng.gauss(0, 1)), 8.0, 16.0, f"{index}"
        )
        for index, each in enumerate(fall)
    )
    return OfuSeries("name", (("job_name", name),), points)


@given(st.lists(st.floats(0, 1), max_size=12), st.integers(0, 20))
def test_holm_is_what_its_definition_says(tails: list[float], more: int) -> None:
    tests = len(tails) + more
    for tail, adjusted in zip(tails, holm(tails, tests), strict=True):
        smaller = sorted(other for other in tails if other <= tail)
        wanted = max(min(1.0, other * (tests - tails_below(tails, other))) for other in smaller)
        assert adjusted == pytest.approx(wanted)


def tails_below(tails: list[float], tail: float) -> int:
    return sum(other < tail for other in tails)


def test_a_large_drop_is_sure_among_three_hundred_series() -> None:
    fleet = [series(f"quiet{seed}", 20, seed) for seed in range(300)]
    found = survey([*fleet, series("fallen", 20, 1000, 0.4, after=8)], LEAST)
    sure = [change for change in found.changes if change.sure]
    (change,) = (change for change in sure if change.series.labels[0][1] == "fallen")
    assert len(sure) == 1
    assert change.level.index == 12
    assert change.chance_in_report > 100 * change.level.tail
    assert found.tested == 301
    assert found.expected_false == pytest.approx(301 * 0.05 + 2.0 * 301 / 300, rel=0.01)


def test_what_only_the_t_distribution_knows_is_not_sure() -> None:
    """Of nine points the last three are the lowest in one order of 84, however low they are."""
    fleet = [series(f"quiet{seed}", 20, seed) for seed in range(20)]
    (change,) = (
        each
        for each in survey([*fleet, series("few", 9, 1, 0.01)], LEAST).changes
        if each.level.index == 6
    )
    assert change.level.chance > SURE_LEVEL >= change.chance_in_report
    assert not change.sure


def test_nothing_is_sure_where_too_few_points_tell_how_alike_neighbours_are() -> None:
    """Twenty points show the likeness of their neighbours hardly at all, so twelve low ones may be noise."""
    alone = series("fallen", 20, 1, 0.2, after=10)
    (change,) = survey([alone], LEAST).changes
    assert (change.chance_in_report, change.sure) == (1.0, False)
    others = [series(f"quiet{seed}", 20, seed) for seed in range(2, 12)]
    assert any(
        each.sure and each.series is alone for each in survey([alone, *others], LEAST).changes
    )


@pytest.mark.slow
@pytest.mark.parametrize("pool", [(1, 20), (3, 40), (10, 20), (1, 60)])
def test_no_more_false_alarms_come_than_are_stated(pool: tuple[int, int]) -> None:
    """One to ten series with neighbours as alike as 0.8, 100 in all; the chance that is accepted would be 5 or 1."""
    stated, found = possible_in_quiet(pool, "normal", 0.8, 100)
    assert found <= stated + 2 * math.sqrt(stated / 100)
    assert found > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "alike"), [("skewed", 0.0), ("normal", 0.3)])
def test_whole_answers_hardly_ever_call_a_change_sure_that_is_none(kind: str, alike: float) -> None:
    """Of 300 series, ten of which fall to a half; the same ten answers each time. By t alone, a fifth had one."""
    rng, false = random.Random(f"{kind}{alike}"), 0
    for _ in range(10):
        found = survey(fleet_of(300, kind, alike, rng, falls=10), 1.0).changes
        false += any(each.sure and int(each.series.labels[0][1]) >= 10 for each in found)
    assert false == 0


def test_a_change_names_the_jobs_beside_it_and_its_cost() -> None:
    (change,) = survey([series("fallen", 20, 1, 0.5)], LEAST).changes
    assert [each.job_id for each in change.before[-5:]] == ["12", "13", "14", "15", "16"]
    assert [each.job_id for each in change.after] == ["17", "18", "19"]
    assert change.lost_gpu_hours == pytest.approx(48 * 0.5, rel=0.15)
    assert change.after[0].at_unix == 17 * 3600
    assert (change.before[0].at_unix, change.after[-1].at_unix) == (0.0, 19 * 3600.0)


def test_what_got_faster_saved_gpu_hours() -> None:
    (change,) = survey([series("mended", 20, 1, 2.5)], LEAST).changes
    assert change.lost_gpu_hours == pytest.approx(-48 * 1.5, rel=0.15)


@pytest.mark.parametrize("pause", [(0.2, 0, 0, 0.1), (0,) * 9])
def test_work_that_goes_on_after_a_pause_saved_none(pause: tuple[float, ...]) -> None:
    """At the OFU of the pause, of which some minutes may be work, it would have taken forever."""
    whole = series("paused", 40, 1)
    end = 20 + len(pause)
    paused = zip(whole.points[20:end], pause, strict=True)
    rests = [replace(each, value=0.4 * value) for each, value in paused]
    points = (*whole.points[:20], *rests, *whole.points[end:])
    fell, rose = sorted(survey([replace(whole, points=points)], LEAST).changes, key=_place)
    assert fell.lost_gpu_hours == pytest.approx(16 * len(pause), rel=0.2)
    assert rose.level.factor > 5
    assert rose.lost_gpu_hours == 0.0


def _place(change: LevelChange) -> int:
    return change.level.index


def test_series_of_too_few_points_are_counted() -> None:
    found = survey([series("short", FEWEST_POINTS - 1, 1, 0.3), series("long", 20, 2)], LEAST)
    assert found.tested == 1
    assert found.changes == ()


def test_small_changes_are_counted_and_left_out() -> None:
    fleet = [series("slightly", 30, 5, 0.8, after=15)]
    assert len(survey(fleet, 1.1).changes) == 1
    found = survey(fleet, 1.5)
    assert (found.changes, found.smaller) == ((), 1)


def test_sure_ones_come_first_then_the_costliest() -> None:
    fleet = [series(f"quiet{seed}", 20, seed) for seed in range(40)]
    fallen = [series("by-half", 20, 1000, 0.4, 10), series("to-nothing", 20, 1001, 0.2, 10)]
    found = survey([*fleet, *fallen], LEAST).changes
    assert [change.series.labels[0][1] for change in found[:2]] == ["to-nothing", "by-half"]
    assert [change.sure for change in found] == sorted((c.sure for c in found), reverse=True)


def test_no_series_at_all_is_no_error() -> None:
    found = survey([], LEAST)
    assert (found.tested, found.changes, found.likeness) == (0, (), {})
