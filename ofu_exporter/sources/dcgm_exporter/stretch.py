"""Decides which time each value of a page stands for, because a page has no time stamps. Pure, one object per GPU.

dcgm-exporter collects every `collect` seconds. A value that it shows is the mean over the collection that ended when
the value appeared. So a new value stands for the time before it was seen, back to the end of the collection before. A
value that stays while several collections end is the mean of each of them: a page does not show whether a collection
brought the same value, or none. When a value changes after that, only the last collection is the new value's, and the
time before it is the old one's.

Collections come at a steady pace. So their ends are known better than from the two pages between which a value changed:
a collection ended between these two pages, as close as possible to a whole number of collections after the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ofu_exporter.sources.dcgm_exporter.page import PageRow
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS, ClockSample, Reading

LATE = 1.5
"""Number of collection intervals after which a collection must have ended; a single one may come late."""


@dataclass(slots=True)
class Stretch:
    """The time since the last collection of one GPU with a known end, and the value that was shown in this time."""

    collect: float
    """Seconds between two collections."""
    row: PageRow
    end: float
    """When the last used collection ended, or the first page came. The time after that has not been used yet."""
    shown_at: float
    """When the page showed `row` for the last time."""
    unsure: float | None = None
    """Error of that end; None if `end` is not the end of a collection."""
    is_news: bool = False
    """Whether the next value counts as new in any case, because the GPU could not be read."""
    has_hole: bool = False
    """Whether a page could not be read since the end, so that values may have been missed."""
    joules: float | None = None
    """What the energy counter showed when the last window was made; None if time was left out since."""
    early_changes: int = 0
    """How many changes in a row came within half of a collection after the one before."""

    def take(self, row: PageRow, now: float) -> Iterator[Reading]:
        """The windows that a page completes, oldest first. A value that came too soon is left to the next page."""
        repeated = row.values() == self.row.values() and not self._lost_sight(now)
        if repeated and not self.is_news:
            yield from self._repeated(row, now)
        elif now - self.end >= SHORTEST_WINDOW_SECONDS:
            yield from self._changed(row, now)

    def _lost_sight(self, now: float) -> bool:
        """Whether no page was read during a whole collection."""
        return now - self.shown_at > LATE * self.collect

    def _repeated(self, row: PageRow, now: float) -> Iterator[Reading]:
        while now - self.end >= LATE * self.collect:
            start, self.end = self.end, self.end + self.collect
            self.has_hole, self.early_changes = False, 0
            yield reading(row, start, self.end, self.collect, energy=self._energy(row))
        self.row, self.shown_at = row, now

    def _changed(self, row: PageRow, now: float) -> Iterator[Reading]:
        count, earliest, latest = self._collected(now)
        start, end = self.end, (earliest + latest) / 2
        if end - start < SHORTEST_WINDOW_SECONDS:
            return
        if count > 1 and (self.is_news or self.has_hole or self._lost_sight(now)):
            start = max(start, end - self.collect)
            self.joules = None
        elif count > 1 and end - self.collect - start >= SHORTEST_WINDOW_SECONDS:
            start = end - self.collect
            yield reading(self.row, self.end, start, self.collect)
        self.early_changes = self.early_changes + 1 if end - self.end < self.collect / 2 else 0
        self.unsure = None if row.values() == self.row.values() else (latest - earliest) / 2
        self.row, self.end, self.shown_at = row, end, now
        self.is_news = self.has_hole = False
        yield reading(row, start, end, self.collect, energy=self._energy(row))

    def _energy(self, row: PageRow) -> float | None:
        """The energy since the window before. A page may be a collection older than its energy: sums are right."""
        before, self.joules = self.joules, row.total_joules
        return None if before is None or self.joules is None else self.joules - before

    def _collected(self, now: float) -> tuple[int, float, float]:
        """How many collections after the last one the value belongs to, and the earliest and latest end of that
        collection."""
        earliest = max(self.shown_at, now - self.collect, self.end)
        if self.unsure is None:
            seconds = (earliest + now) / 2 - self.end
            return math.ceil(seconds / self.collect), earliest, now
        count = max(1, int((now - self.end) / self.collect))
        at = self.end + count * self.collect
        if at + self.collect - now < earliest - at:
            count, at = count + 1, at + self.collect
        nearest = min(max(at, earliest), now)
        first, last = max(at - self.unsure, earliest), min(at + self.unsure, now)
        return (count, first, last) if first <= last else (count, nearest, nearest)


def reading(
    row: PageRow,
    start: float,
    end: float,
    pace: float,
    counts: bool = True,
    energy: float | None = None,
) -> Reading:
    """The reading of a window from a row."""
    clocks = () if row.clock_hz is None else (ClockSample(end, row.clock_hz),)
    return Reading(
        row.gpu,
        start,
        end,
        row.tensor_active,
        row.pipes,
        clocks,
        pace=pace,
        evidence=row.evidence(),
        counts=counts,
        activity=row.activity(energy),
    )
