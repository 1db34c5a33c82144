"""Divides a stretch of time into whole hours, which end when a server evaluates its hourly recording rules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

HOUR = 3600.0
DAY = 24 * HOUR


class TimeSpan(NamedTuple):
    """The time after `start`, up to and with `end`; Unix seconds."""

    start: float
    end: float

    @property
    def hours(self) -> int:
        return round((self.end - self.start) / HOUR)

    def pieces(self, hours: int) -> Iterator[TimeSpan]:
        """Spans of this number of hours; the last may be shorter."""
        for piece in range(0, self.hours, hours):
            begin = self.start + HOUR * piece
            yield TimeSpan(begin, min(begin + HOUR * hours, self.end))


class ServerClock(NamedTuple):
    """Whole hours that begin `phase` seconds after those of the clock."""

    phase: float = 0.0

    def whole(self, start: float, end: float) -> TimeSpan:
        """As many whole hours as lie between two times, the last of them the last that has ended."""
        last = math.floor((round(end, 3) - self.phase) / HOUR + 1e-9)
        return TimeSpan(self.end_of(last - max(0, round((end - start) / HOUR))), self.end_of(last))

    def hours(self, span: TimeSpan) -> range:
        """The numbers of the hours of a span of whole hours."""
        return range(self.hour_of(span.start) + 1, self.hour_of(span.end) + 1)

    def span(self, first: int, last: int) -> TimeSpan:
        return TimeSpan(self.end_of(first - 1), self.end_of(last))

    @lru_cache(maxsize=65536)  # noqa: B019 - a clock is a number, and thousands of jobs have the same hours
    def day_of(self, hour: int) -> int:
        """Days since 1970 (UTC) until the hour began."""
        return math.floor(self.end_of(hour - 1) / DAY)

    @lru_cache(maxsize=65536)  # noqa: B019
    def hour_of(self, time: float) -> int:
        """The number of the hour that a time lies in; its very end belongs to it, its begin doesn't."""
        return math.ceil((round(time, 3) - self.phase) / HOUR - 1e-9)

    @lru_cache(maxsize=4096)  # noqa: B019
    def hours_of(self, times: tuple[float, ...]) -> tuple[int, ...]:
        """The hours of some times."""
        return tuple(map(self.hour_of, times))

    @lru_cache(maxsize=65536)  # noqa: B019
    def end_of(self, hour: int) -> float:
        return round(hour * HOUR + self.phase, 3)


def phase_of(stamps: Iterable[float]) -> float:
    """Seconds after the full hour at which most of the stamps lie; 0 where there are none."""
    counted = Counter(round(stamp % HOUR, 3) for stamp in stamps)
    return min(counted, key=lambda phase: (-counted[phase], phase), default=0.0)


def successive_hours(hours: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and last of every row of successive hours."""
    ordered = sorted(set(hours))
    begin = 0
    for place, hour in enumerate(ordered):
        if place + 1 == len(ordered) or ordered[place + 1] != hour + 1:
            yield ordered[begin], hour
            begin = place + 1
