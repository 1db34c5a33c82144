"""A stretch of time is divided into whole hours that end when the rules are evaluated."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan, phase_of, successive_hours

PHASES = st.integers(0, 3_599_999).map(lambda ms: ms / 1000)
TIMES = st.integers(1_700_000_000, 1_800_000_000).map(float)


@given(PHASES, st.integers(470_000, 500_000))
def test_the_end_of_an_hour_belongs_to_it_and_its_begin_does_not(phase: float, hour: int) -> None:
    clock = ServerClock(phase)
    assert clock.hour_of(clock.end_of(hour)) == hour
    assert clock.hour_of(clock.end_of(hour) + 0.001) == hour + 1
    assert clock.hour_of(clock.end_of(hour) - 0.001) == hour


@given(PHASES, TIMES, st.integers(1, 400))
def test_as_many_whole_hours_as_were_asked_for_end_before_the_end(
    phase: float, end: float, hours: int
) -> None:
    clock = ServerClock(phase)
    span = clock.whole(end - hours * HOUR, end)
    assert span.hours == hours
    assert end - HOUR < span.end <= end
    assert len(clock.hours(span)) == hours
    assert clock.span(clock.hours(span)[0], clock.hours(span)[-1]) == span


@given(st.integers(1, 400), st.integers(1, 50))
def test_pieces_and_halves_are_the_whole(hours: int, size: int) -> None:
    whole = TimeSpan(1000.0, 1000.0 + hours * HOUR)
    pieces = [*whole.pieces(size)]
    assert pieces[0].start == whole.start
    assert pieces[-1].end == whole.end
    assert all(one.end == other.start for one, other in itertools.pairwise(pieces))
    assert sum(piece.hours for piece in pieces) == hours


def test_the_phase_is_where_most_stamps_lie() -> None:
    assert phase_of([]) == 0.0
    assert phase_of([7200.0 + 12.5, 3600.0 + 12.5, 3600.0 + 99.0]) == 12.5


def test_runs_are_rows_of_successive_hours() -> None:
    assert [*successive_hours([])] == []
    assert [*successive_hours([5, 3, 4, 9, 11, 12])] == [(3, 5), (9, 9), (11, 12)]


def test_an_hour_belongs_to_the_day_in_which_it_begins() -> None:
    clock = ServerClock(0.0)
    assert clock.day_of(24) == 0
    assert clock.day_of(25) == 1
