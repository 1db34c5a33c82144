"""The last hour of one value: exact means of steps, whatever is added when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.track import Sums, Track


def test_sums_that_begin_anew_make_no_value() -> None:
    track = Track(10.0)
    for at, sums in ((10.0, Sums(5.0, 10.0)), (20.0, Sums(10.0, 20.0)), (30.0, Sums(1.0, 2.0))):
        track.grow(sums, at, 10.0)
    assert track.means(30.0)[-2:] == [0.5, None]


@given(st.lists(st.tuples(st.floats(0.1, 30.0), st.floats(0.0, 1.0)), min_size=1, max_size=60))
def test_all_that_was_measured_is_in_the_steps(windows: list[tuple[float, float]]) -> None:
    track, now, value, seconds = Track(10.0), 0.0, 0.0, 0.0
    track.grow(Sums(0.0, 0.0), 0.0, 0.0)
    for length, mean in windows:
        now, value, seconds = now + length, value + length * mean, seconds + length
        track.grow(Sums(value, seconds), now, length)
    assert sum(track._values) == pytest.approx(value, rel=1e-4, abs=1e-4)
    assert sum(track._seconds) == pytest.approx(seconds, rel=1e-4)


def test_the_mean_of_several_steps_weighs_each_by_what_was_measured_in_it() -> None:
    track = Track(10.0)
    track.grow(Sums(0.0, 0.0), 0.0)
    track.grow(Sums(8.0, 10.0), 10.0, 10.0)
    track.grow(Sums(8.2, 11.0), 11.0, 1.0)
    assert track.means(20.0, 2)[-1] == pytest.approx(8.2 / 11.0)
    assert track.means(20.0, 2)[:-1] == [None] * 179


def test_of_a_time_longer_than_the_hour_all_is_in_the_hour() -> None:
    track = Track(10.0)
    track.grow(Sums(0.0, 0.0), 0.0)
    track.grow(Sums(3600.0, 7200.0), 7200.0, 7200.0)
    assert track.means(7200.0) == pytest.approx([0.5] * 360)
    assert sum(track._seconds) == pytest.approx(7200.0)
