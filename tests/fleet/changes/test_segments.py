"""Changes of level in series whose truth is known: what is found, where, how large, and how rarely for nothing."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.fleet.changes.alike import Likeness
from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.segments import breaks
from tests.bench.changes import learned, quiet

NONE_ALIKE = Likeness(0.0)


def points(logs: Sequence[float], gpus: Sequence[float] | None = None) -> list[OfuPoint]:
    each = gpus or [64.0] * len(logs)
    return [
        OfuPoint(3600.0 * index, 0.4 * math.exp(value), each[index])
        for index, value in enumerate(logs)
    ]


def series(count: int, scatter: float, seed: int, *steps: tuple[int, float]) -> list[float]:
    """Normal noise with changes by factors from points on."""
    rng = random.Random(seed)
    return [
        scatter * rng.gauss(0, 1)
        + sum(math.log(factor) for start, factor in steps if index >= start)
        for index in range(count)
    ]


def found(logs: Sequence[float]) -> list[int]:
    return [each.index for each in breaks(points(logs), NONE_ALIKE)]


@pytest.mark.parametrize("count", [9, 12, 20, 40, 60, 200, 336])
def test_a_drop_to_a_half_is_found_three_jobs_later(count: int) -> None:
    for seed in range(20):
        logs = series(count, 0.08, seed, (count - 3, 0.5))
        assert any(abs(index - (count - 3)) <= 1 for index in found(logs)), seed


@pytest.mark.parametrize("count", [20, 60])
def test_a_series_in_which_nothing_changes_rarely_shows_a_change(count: int) -> None:
    alarms = sum(bool(found(series(count, 0.1, seed))) for seed in range(100))
    assert alarms <= 9  # of 100; with a true share of 5 % there are more in 3 % of all worlds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "alike", "count", "tried", "most"),
    [
        ("normal", 0.0, 20, 800, 0.05),
        ("normal", 0.5, 20, 800, 0.05),
        ("normal", 0.0, 200, 200, 0.01),
        ("normal", 0.5, 200, 200, 0.01),
        ("heavy tails", 0.5, 200, 200, 0.01),
        ("normal", 0.5, 336, 200, 0.01),
    ],
)
def test_false_alarms_keep_to_the_goals(
    kind: str, alike: float, count: int, tried: int, most: float
) -> None:
    """At most 5 % of series of 20 points, and 1 % from 200 points on, of equal series each time."""
    rng = random.Random(f"{kind}{alike}{count}")
    fleet = learned(partial(quiet, kind=kind, alike=alike, rng=rng), rng)
    alarms = sum(bool(breaks(quiet(count, kind, alike, rng), fleet)) for _ in range(tried))
    assert alarms <= most * tried


def test_several_changes_are_found_and_hardly_ever_one_more() -> None:
    exact = [found(series(60, 0.05, seed, (20, 0.5), (40, 2.5))) for seed in range(20)]
    assert all({20, 40} <= set(each) for each in exact)
    assert exact.count([20, 40]) >= 17


def test_a_change_has_its_levels_and_its_factor() -> None:
    logs = series(60, 0.05, 1, (20, 0.5), (40, 2.5))
    first, second = breaks(points(logs), NONE_ALIKE)
    assert first.factor == pytest.approx(0.5, rel=0.05)
    assert second.factor == pytest.approx(2.5, rel=0.05)
    assert (first.before, first.after, second.after) == pytest.approx((0.4, 0.2, 0.5), rel=0.05)
    assert first.after == second.before


ORACLE = json.loads((Path(__file__).parent / "ruptures.json").read_text())


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: str(len(case["logs"])))
def test_changes_are_where_another_library_finds_as_many(case: dict[str, Any]) -> None:
    ours = found(case["logs"])
    assert set(case["changes"]) <= set(ours)
    assert len(ours) <= len(case["changes"]) + 1  # that is told how many there are; we are not


def test_stairs_of_a_long_series_do_not_hide_each_other() -> None:
    assert found(series(120, 0.05, 5, (40, 0.5), (80, 0.5))) == [40, 80]


@pytest.mark.parametrize("hole", [5, 10])
def test_a_fault_that_was_mended_is_found_with_its_end(hole: int) -> None:
    logs = series(60, 0.05, 8, (30, 0.5), (30 + hole, 2.0))
    assert found(logs) == [30, 30 + hole]


def test_one_bad_job_is_no_change() -> None:
    logs = series(24, 0.05, 4)
    logs[12] -= 3.0
    assert found(logs) == []


def test_growing_jobs_that_scale_as_ever_are_no_regression() -> None:
    sizes = [8.0 * 2 ** (index // 4) for index in range(24)]
    noise = series(24, 0.03, 6)
    logs = [value - 0.1 * math.log2(size) for value, size in zip(noise, sizes, strict=True)]
    assert breaks(points(logs, sizes), NONE_ALIKE) == []
    assert breaks(points(logs), NONE_ALIKE)  # without their sizes they would be one


def test_a_drop_is_found_beside_growing_jobs_at_its_size_for_equal_jobs() -> None:
    sizes = [8.0 * 2 ** (index % 4) for index in range(24)]
    noise = series(24, 0.03, 6, (16, 0.5))
    logs = [value - 0.1 * math.log2(size) for value, size in zip(noise, sizes, strict=True)]
    (change,) = breaks(points(logs, sizes), NONE_ALIKE)
    assert change.index == 16
    assert change.factor == pytest.approx(0.5, rel=0.1)


def test_the_stated_interval_holds_the_truth() -> None:
    held = 0
    for seed in range(60):
        for each in breaks(points(series(24, 0.1, seed, (12, 0.5))), NONE_ALIKE):
            held += abs(each.index - 12) <= 1 and each.factor_low <= 0.5 <= each.factor_high
    assert held >= 50  # of 60, at 95 % each


def test_alike_noise_is_judged_by_what_the_fleet_knows() -> None:
    rng = random.Random(9)
    trusting = cautious = 0
    for _ in range(60):
        values = [rng.gauss(0, 1)]
        while len(values) < 20:
            values.append(0.6 * values[-1] + 0.8 * rng.gauss(0, 1))
        logs = points([0.1 * value for value in values])
        trusting += bool(breaks(logs, NONE_ALIKE))
        cautious += bool(breaks(logs, Likeness(0.6)))
    assert cautious < trusting


def test_nothing_and_equal_points_have_no_change() -> None:
    assert breaks([], NONE_ALIKE) == []
    assert found([0.0] * 30) == []
    assert found([0.0] * 100) == []


def test_a_change_without_any_noise_is_found() -> None:
    assert found([0.0] * 12 + [-0.5] * 6) == [12]
    assert found([0.0] * 100 + [-0.5] * 6) == [100]


def test_differences_that_nobody_measures_are_no_change() -> None:
    assert found([0.0] * 60 + [0.003] * 60) == []


def test_jobs_that_did_nothing_at_all_are_a_change_to_nothing() -> None:
    values = [OfuPoint(float(index), 0.4 if index < 15 else 0.0) for index in range(20)]
    (change,) = breaks(values, NONE_ALIKE)
    assert change.index == 15
    assert change.factor < 0.01


def test_a_change_with_which_the_jobs_changed_their_size_has_the_height_that_is_seen() -> None:
    """Between the neighbouring changes, size and step are the same column: only the step is told."""
    logs = series(90, 0.02, 1, (30, 0.85), (60, 0.5))
    each = [8.0, 64.0] * 15 + [64.0] * 30 + [8.0] * 30
    last = breaks(points(logs, each), NONE_ALIKE)[-1]
    assert last.index == 60
    assert last.factor_low < last.factor < last.factor_high
    assert last.factor == pytest.approx(0.5, abs=0.02)
