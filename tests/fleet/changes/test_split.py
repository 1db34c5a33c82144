"""The best step, against least squares tried on every stretch of the series."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.changes.split import (
    FEWEST_BESIDE,
    LONGEST_ARC,
    arc_search,
    change_search,
    layout,
    levelled,
)

SERIES = st.lists(st.floats(-5, 5).map(lambda value: round(value, 3)), min_size=9, max_size=24)


def squares(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def gained(values: list[float], start: int, end: int) -> float:
    """How much less the sum of squares is when a stretch has a mean of its own."""
    outside = values[:start] + values[end:]
    return squares(values) - squares(values[start:end]) - squares(outside)


@given(SERIES)
def test_the_best_change_is_the_one_that_leaves_the_smallest_squares(values: list[float]) -> None:
    plan = layout(len(values))
    search = change_search(plan)
    assert search is not None
    found = search.best(plan.residuals(values))
    tried = range(FEWEST_BESIDE, len(values) - FEWEST_BESIDE + 1)
    assert found.gain == pytest.approx(
        max(gained(values, at, len(values)) for at in tried), abs=1e-6
    )
    assert found.gain == pytest.approx(gained(values, *found.ends), abs=1e-6)


@given(SERIES)
def test_the_best_arc_is_the_one_that_leaves_the_smallest_squares(values: list[float]) -> None:
    plan, last = layout(len(values)), len(values) - FEWEST_BESIDE
    search = arc_search(plan)
    tried = [
        gained(values, start, end)
        for start in range(FEWEST_BESIDE, last)
        for end in range(start + FEWEST_BESIDE, last + 1)
    ]
    if search is None:
        assert not tried
    else:
        assert search.best(plan.residuals(values)).gain == pytest.approx(max(tried), abs=1e-6)


def test_what_size_explains_is_no_change() -> None:
    sizes = [3.0] * 5 + [4.0, 6.0] * 5 + [3.0, 6.0] * 5
    values = [-0.2 * size for size in sizes]
    plan = layout(len(values), sizes)
    assert plan.residuals(values) == pytest.approx([0.0] * len(values), abs=1e-9)


def test_a_change_beside_sizes_has_the_gain_of_least_squares() -> None:
    rng = random.Random(5)
    sizes = [float(rng.randint(3, 9)) for _ in range(20)]
    values = [rng.gauss(0, 1) - 0.3 * size for size in sizes]
    plan = layout(20, sizes)
    search = change_search(plan)
    assert search is not None
    found = search.best(plan.residuals(values))
    assert found.gain == pytest.approx(
        left_by(values, sizes, None) - left_by(values, sizes, found.start)
    )


def left_by(values: list[float], sizes: list[float], at: int | None) -> float:
    """Squares that a level, a slope by size and a step leave, by the normal equations."""
    columns = [[1.0] * len(values), sizes]
    if at is not None:
        columns.append([float(index >= at) for index in range(len(values))])
    rows = [[dot(a, b) for b in columns] + [dot(a, values)] for a in columns]
    for pivot, row in enumerate(rows):
        for other in rows:
            if other is not row:
                factor = other[pivot] / row[pivot]
                other[:] = [a - factor * b for a, b in zip(other, row, strict=True)]
    slopes = [row[-1] / row[number] for number, row in enumerate(rows)]
    return math.fsum(
        (value - sum(slope * column[index] for slope, column in zip(slopes, columns, strict=True)))
        ** 2
        for index, value in enumerate(values)
    )


def dot(left: list[float], right: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def test_a_step_that_size_explains_wholly_is_not_looked_for() -> None:
    plan = layout(10, [3.0] * 5 + [6.0] * 5)
    assert plan.weight(5, 10) == 0.0
    assert plan.weight(3, 10) > 0.0


def test_too_few_points_have_no_change() -> None:
    assert change_search(layout(2 * FEWEST_BESIDE - 1)) is None
    assert arc_search(layout(3 * FEWEST_BESIDE - 1)) is None


def test_a_step_inside_a_series_is_fifty_points_long_at_most() -> None:
    search = arc_search(layout(120))
    assert search is not None
    assert max(end - start for start, end in search.steps) == LONGEST_ARC


def test_levels_are_taken_out_between_marks() -> None:
    assert levelled([1.0, 3.0, 10.0, 20.0], [2]) == [-1.0, 1.0, -5.0, 5.0]
