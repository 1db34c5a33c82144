"""Keeps the means of one value over the steps of the last hour, of sums that grow."""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

HISTORY_SECONDS = 3600.0


class Sums(NamedTuple):
    """A sum that grows, and the seconds over which it was summed."""

    value: float
    seconds: float


class Track:
    """The means of one value over steps of equal length, the last hour of them."""

    def __init__(self, step: float) -> None:
        self.step = step
        self._size = int(HISTORY_SECONDS / step)
        self._values = array("f", bytes(4 * self._size))
        self._seconds = array("f", bytes(4 * self._size))
        self._newest: int | None = None
        self._before: Sums | None = None

    def grow(self, sums: Sums, end: float, length: float | None = None) -> None:
        """Take in what has been added to the sums, as of the time before `end`.

        `length` is how long that time is in seconds; None = all of it counts for the instant `end`.
        """
        before, self._before = self._before, sums
        if before is None or sums.seconds < before.seconds:
            return
        value, seconds = sums.value - before.value, sums.seconds - before.seconds
        if seconds <= 0:
            return
        start = end - min(length or 0.0, HISTORY_SECONDS)
        first, last = math.floor(start / self.step), math.ceil(end / self.step) - 1
        self._advance(max(last, first))
        for place in range(first, max(last, first) + 1):
            inside = min(end, (place + 1) * self.step) - max(start, place * self.step)
            share = inside / (end - start) if end > start else 1.0
            self._add(place, value * share, seconds * share)

    def _add(self, place: int, value: float, seconds: float) -> None:
        if self._newest is not None and place > self._newest - self._size:
            self._values[place % self._size] += value
            self._seconds[place % self._size] += seconds

    def _advance(self, place: int) -> None:
        newest = place - self._size if self._newest is None else self._newest
        for fresh in range(max(newest, place - self._size) + 1, place + 1):
            self._values[fresh % self._size] = self._seconds[fresh % self._size] = 0.0
        self._newest = max(newest, place)

    def means(self, end: float, steps: int = 1) -> list[float | None]:
        """The mean of every `steps` steps of the hour before `end`, oldest first; None where nothing was measured."""
        last = math.ceil(end / self.step) - 1
        places = range(last - self._size + 1, last + 1)
        return [self._mean(places[at : at + steps]) for at in range(0, self._size, steps)]

    def _mean(self, places: range) -> float | None:
        if self._newest is None:
            return None
        oldest = self._newest - self._size + 1
        inside = [place % self._size for place in places if oldest <= place <= self._newest]
        seconds = math.fsum(self._seconds[place] for place in inside)
        return math.fsum(self._values[place] for place in inside) / seconds if seconds > 0 else None
