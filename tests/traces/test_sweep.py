"""Pieces of time belong to the foremost thing that is there, as a count moment by moment says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.traces.sweep import NOTHING, pieces

THINGS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 3)), max_size=12)


@given(THINGS)
def test_every_moment_belongs_to_the_foremost_thing(some: list[tuple[int, int, int]]) -> None:
    things = sorted(
        (float(start), float(start + length), rank, number)
        for number, (start, length, rank) in enumerate(some)
    )
    found = list(pieces(things))
    first = min((start for start, *_ in things), default=0.0)
    last = max((end for _, end, *_ in things), default=0.0)
    assert sum(each.end - each.start for each in found) == last - first
    for moment in range(int(first), int(last)):
        there = [each for each in things if each[0] <= moment < each[1]]
        wanted = min(there, key=lambda each: (each[2], each[0], each[3]))[3] if there else NOTHING
        (piece,) = [each for each in found if each.start <= moment < each.end]
        assert piece.owner == wanted
        if not there:
            ended_by = min(each[0] for each in things if each[0] > moment)
            assert things[[each[3] for each in things].index(piece.following)][0] == ended_by
