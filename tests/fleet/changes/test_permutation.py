"""The permutation test, against all orders of a series that is short enough to try them all."""

from __future__ import annotations

from itertools import permutations

import pytest

from ofu_exporter.fleet.changes.permutation import ORDERS, permuted
from ofu_exporter.fleet.changes.split import Search, changes, layout


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
