"""A rank sum's probability is that of counting every order, whatever the values are."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from itertools import combinations, permutations

import pytest

from ofu_exporter.fleet.changes.orders import EXACT, ORDERS, by_order, permuted, rank_tail
from ofu_exporter.fleet.changes.split import Search, Step, changes, layout


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
        orders = (
            [value + place / 100 for value, place in zip(values, order, strict=True)]
            for order in permutations(range(7))
        )
        least = max(counted(order, start, end) for order in {tuple(each) for each in orders})
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
    found = changes(layout(count))
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
