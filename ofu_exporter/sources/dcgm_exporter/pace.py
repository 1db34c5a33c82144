"""Decides when a page is read, and knows how many of its collections were missed."""

from __future__ import annotations

import math
import random

PER_COLLECTION = 2
"""Reads of the page per collection, or per window if that is shorter."""
LATENESS = 1.05
"""Threads wake up late: a pause that is too long by up to this much counts as the intended pause."""
SETTLED_GAPS = 3
"""Number of gaps in a row, each too long to see every collection, after which the settings count as the cause."""


class PagePace:
    """When one page was read, and when it is to be read next. Times are monotonic seconds."""

    def __init__(self, collect: float) -> None:
        self._collect = collect
        self._window = collect
        self._called_at = -math.inf
        self._asked_at = -math.inf
        self._answered_at: float | None = None
        self._read_at: float | None = None
        self._failed = False
        self._long_gaps = 0
        self._unseen = 0.0

    def is_due(self, now: float) -> bool:
        """Whether the page must be read now, because the next time that this is asked would be too late."""
        next_call_at, self._called_at = 2 * now - self._called_at, now
        longest = min(self._collect, self._window) / PER_COLLECTION
        # Reads in step with the collections would never show more exactly when these end.
        if next_call_at <= self._asked_at + LATENESS * random.uniform(0.5, 1.0) * longest:
            return False
        self._asked_at = now
        return True

    def begin_window(self, now: float) -> None:
        """Note that the page is read because a window ends."""
        if self._read_at is not None:
            self._window = now - self._read_at
        self._read_at = self._called_at = self._asked_at = now

    def note_failure(self) -> None:
        """Note that the page did not come, so the settings are not the cause of the gap."""
        self._failed = True

    def take_unseen(self, now: float) -> int:
        """Note that the page came; returns how many collections before it were certainly missed."""
        gap = 0.0 if self._answered_at is None else now - self._answered_at
        failed, self._failed, self._answered_at = self._failed, False, now
        if gap <= LATENESS * self._collect:
            self._long_gaps = 0
            return 0
        self._long_gaps += 0 if failed else 1
        self._unseen += gap / self._collect - 1
        whole = int(self._unseen)
        self._unseen -= whole
        return whole

    @property
    def is_too_slow(self) -> bool:
        """Whether collections are missed because of the settings."""
        return self._long_gaps >= SETTLED_GAPS
