"""Changes of level in series whose truth is known: what is found, where, how large, and how rarely for nothing."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from functools import cache, partial
from itertools import chain, combinations, permutations, product
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.fleet.changes.alike import Likeness
from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.segments import (
    CHANGE_SHARE,
    EXACT,
    ORDERS,
    _judged,
    accepted,
    breaks,
    by_order,
    permuted,
    rank_tail,
)
from ofu_exporter.fleet.changes.split import Search, Step, change_search, layout
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


@pytest.mark.slow
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


def test_both_chances_of_a_change_are_of_its_part_of_all() -> None:
    logs = points(series(60, 0.05, 1, (20, 0.5)))
    search = change_search(layout(60))
    assert search is not None
    judged = _judged(logs, search, NONE_ALIKE, CHANGE_SHARE * accepted(60))
    (only,) = breaks(logs, NONE_ALIKE)
    assert only.chance == pytest.approx(judged.chance / CHANGE_SHARE, abs=0.0)
    assert only.tail == pytest.approx(judged.tail / CHANGE_SHARE, abs=0.0)


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


@pytest.mark.slow
def test_the_stated_interval_holds_the_truth() -> None:
    held = 0
    for seed in range(60):
        for each in breaks(points(series(24, 0.1, seed, (12, 0.5))), NONE_ALIKE):
            held += abs(each.index - 12) <= 1 and each.factor_low <= 0.5 <= each.factor_high
    assert held >= 50  # of 60, at 95 % each


@pytest.mark.slow
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


def counted(values: Sequence[float], start: int, end: int) -> float:
    """The two-sided probability by trying every set of places."""
    ranks = {
        place: rank
        for rank, place in enumerate(sorted(range(len(values)), key=lambda i: values[i]), 1)
    }
    total = sum(ranks[place] for place in range(start, end))
    return share_of_sums(len(values), end - start, total)


@cache
def share_of_sums(count: int, points: int, total: int) -> float:
    """Two-sided, of all sets of so many ranks."""
    sums = [sum(chosen) for chosen in combinations(range(1, count + 1), points)]
    low = sum(each <= total for each in sums) / len(sums)
    high = sum(each >= total for each in sums) / len(sums)
    return min(1.0, 2 * min(low, high))


@pytest.mark.parametrize(("start", "end"), [(0, 3), (7, 10), (3, 6), (2, 9), (0, 7), (4, 5)])
def test_it_is_the_share_of_orders_with_as_extreme_a_sum(start: int, end: int) -> None:
    rng = random.Random(start)
    for _ in range(20):
        values = [rng.gauss(0, 1) + 2 * (start <= place < end) for place in range(10)]
        assert rank_tail(values, start, end) == pytest.approx(counted(values, start, end))


@pytest.mark.slow
@pytest.mark.parametrize(("start", "end"), [(0, 3), (3, 5), (2, 7), (0, 4)])
def test_equal_values_get_the_order_that_is_least_remarkable(start: int, end: int) -> None:
    rng = random.Random(end)
    for _ in range(20):
        values = [float(rng.randrange(3)) for _ in range(7)]
        ties = [[place for place in range(7) if values[place] == each] for each in (0, 1, 2)]
        orders = ([*chain(*each)] for each in product(*map(permutations, ties)))
        least = max(counted([*map(order.index, range(7))], start, end) for order in orders)
        assert rank_tail(values, start, end) == pytest.approx(least)


@pytest.mark.parametrize("points", [3, EXACT, 20])
def test_values_that_are_all_equal_have_no_step(points: int) -> None:
    assert rank_tail([0.0] * 60, 60 - points, 60) == 1.0
    assert rank_tail([0.0] * 60, 0, 60 - points) == 1.0


def test_how_far_off_a_value_is_does_not_matter() -> None:
    values = [float(number % 7) + number / 100 for number in range(40)]
    far = [value**9 for value in values]
    assert rank_tail(values, 30, 40) == rank_tail(far, 30, 40)


def test_the_lowest_three_of_two_hundred_in_a_row_are_one_order_of_very_many() -> None:
    values = [float(number) for number in range(200, 0, -1)]
    assert rank_tail(values, 197, 200) == pytest.approx(2 / math.comb(200, 3))
    assert rank_tail(values, 0, 197) == pytest.approx(2 / math.comb(200, 3))


def test_many_points_are_judged_by_the_normal_approximation_that_is_near() -> None:
    rng = random.Random(3)
    values = [rng.gauss(0, 1) - 0.8 * (place >= 60) for place in range(80)]
    points = 20
    assert points > EXACT
    found = rank_tail(values, 60, 80)
    ranks = sorted(range(80), key=values.__getitem__)
    total = sum(rank for rank, place in enumerate(ranks, 1) if place >= 60)
    tries = 20_000
    as_low = sum(sum(rng.sample(range(1, 81), points)) <= total for _ in range(tries)) / tries
    assert found / 2 == pytest.approx(as_low, rel=0.3, abs=0.002)


def test_two_odd_points_are_no_level_by_their_order() -> None:
    """Two of five points that are far off carry any sum; the ranks of the other three say otherwise."""
    noise = [math.sin(7.0 * place) for place in range(60)]
    odd = [value - 30.0 * (place in (56, 58)) for place, value in enumerate(noise)]
    level = [value - 2.0 * (place >= 55) for place, value in enumerate(noise)]
    step = Step(55, 60, 0.0)

    def chance(values: list[float]) -> float:
        inside, rest = values[55:], values[:55]
        left = [v - sum(rest) / 55 for v in rest] + [v - sum(inside) / 5 for v in inside]
        return by_order(values, left, step, 0.0)

    assert chance(level) < 1e-4
    assert chance(odd) > 100 * chance(level)


def search_of(count: int) -> Search:
    found = change_search(layout(count))
    assert found is not None
    return found


def exact(values: list[float]) -> float:
    """The share of all orders in which the best split explains as much, by its definition."""
    middle = sum(values) / len(values)

    def explained(order: tuple[float, ...]) -> float:
        return max(
            at * (sum(order[:at]) / at - middle) ** 2
            + (len(order) - at) * (sum(order[at:]) / (len(order) - at) - middle) ** 2
            for at in range(3, len(order) - 2)
        )

    seen = explained(tuple(values))
    orders = [explained(order) >= seen - 1e-9 for order in permutations(values)]
    return sum(orders) / len(orders)


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.1, 0.05, 0.9, 1.0, 0.95, 1.05],
        [0.0, 0.6, 0.3, 0.5, 1.0, 0.2, 0.9],
        [1.0, 0.1, 0.9, 0.2, 0.8, 0.3, 0.7],
    ],
)
def test_the_share_is_that_of_all_orders(values: list[float]) -> None:
    search = search_of(len(values))
    residuals = search.plan.residuals(values)
    found = permuted(residuals, search, search.best(residuals), 0.0, level=1.0)
    assert found == pytest.approx(exact(values), abs=0.05)


def test_equal_data_give_equal_answers() -> None:
    values = [0.0, 0.6, 0.3, 0.5, 1.0, 0.2, 0.9, 0.8]
    search = search_of(8)
    residuals = search.plan.residuals(values)
    first, second = (
        permuted(residuals, search, search.best(residuals), 0.3, 1.0) for _ in range(2)
    )
    assert first == second


def test_a_clear_change_has_the_smallest_share_there_is() -> None:
    values = [0.01 * (index % 3) + (index >= 15) for index in range(30)]
    search = search_of(30)
    residuals = search.plan.residuals(values)
    found = permuted(residuals, search, search.best(residuals), 0.0, 0.05)
    assert found == 1 / (ORDERS + 1)


def test_no_more_orders_are_tried_than_the_level_needs() -> None:
    values = [float(index % 2) for index in range(20)]
    search = search_of(20)
    residuals = search.plan.residuals(values)
    assert permuted(residuals, search, search.best(residuals), 0.0, 0.01) > 0.01


def test_a_constant_series_has_no_change() -> None:
    search = search_of(8)
    residuals = [0.0] * 8
    assert permuted(residuals, search, search.best(residuals), 0.0, 0.05) == 1.0
