"""Cuts a time in which several things overlap into pieces, each of which belongs to the foremost thing alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

NOTHING = -1


class Piece(NamedTuple):
    """A piece of time."""

    start: float
    end: float
    owner: int
    """What was foremost; NOTHING = nothing was there."""
    following: int
    """What ended a piece of nothing; NOTHING elsewhere."""


def pieces(things: Iterable[tuple[float, float, int, int]]) -> Iterator[Piece]:
    """The pieces from the first start to the last end, in order.

    A thing is its start, end, rank and number; they come by start. The lowest rank is foremost, then the earliest.
    """
    present: list[tuple[int, float, int, float]] = []
    now: float | None = None
    for start, end, rank, number in things:
        if now is None:
            now = start
        while present and now < start:
            _, _, foremost, its_end = present[0]
            if its_end <= now:
                heappop(present)
                continue
            until = its_end if its_end < start else start
            yield Piece(now, until, foremost, NOTHING)
            now = until
        if now < start:
            yield Piece(now, start, NOTHING, number)
            now = start
        if end > now:
            heappush(present, (rank, start, number, end))
    while present and now is not None:
        _, _, foremost, its_end = heappop(present)
        if its_end > now:
            yield Piece(now, its_end, foremost, NOTHING)
            now = its_end
