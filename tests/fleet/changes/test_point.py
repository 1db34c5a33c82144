"""Points: logs, odd ones drawn in, and whether sizes of jobs differ enough to say what size does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.changes.point import CLIP, IDLE_OFU, OfuPoint, clipped, logs, sizes

VALUES = st.lists(st.floats(-10, 10), min_size=6, max_size=40)


def of_sizes(*gpus: float) -> list[OfuPoint]:
    return [OfuPoint(0.0, 0.4, each) for each in gpus]


def test_an_ofu_of_zero_has_a_log() -> None:
    assert logs([OfuPoint(0.0, 0.0), OfuPoint(1.0, 0.5)]) == [math.log(IDLE_OFU), math.log(0.5)]


def test_one_odd_job_is_drawn_in_and_the_others_stay() -> None:
    values = [0.1, -0.1, 0.05, -0.05, 0.0, 40.0]
    found = clipped(values)
    assert found[:5] == values[:5]
    assert 0.1 < found[5] < 2.0


def test_two_levels_are_left_alone() -> None:
    values = [0.0] * 12 + [-1.0] * 3
    assert clipped(values) == values


@given(VALUES, st.randoms())
def test_drawing_in_does_not_depend_on_the_order(values: list[float], shuffler: object) -> None:
    mixed = sorted(values)
    assert sorted(clipped(values)) == pytest.approx(clipped(mixed))


@given(VALUES)
def test_no_value_is_moved_away_from_the_middle(values: list[float]) -> None:
    for before, after in zip(values, clipped(values), strict=True):
        assert min(values) <= after <= max(values)
        assert abs(after) <= max(abs(before), *map(abs, values))
    assert CLIP > 3


def test_jobs_of_one_size_or_one_of_another_say_nothing_of_size() -> None:
    assert sizes(of_sizes(8, 8, 8, 8)) is None
    assert sizes(of_sizes(8, 8, 8, 64)) is None


def test_jobs_of_several_sizes_do() -> None:
    assert sizes(of_sizes(8, 8, 16, 64)) == [3.0, 3.0, 4.0, 6.0]
