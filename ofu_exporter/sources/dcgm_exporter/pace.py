"""Decides when a page is read, and knows how many of its collections came and went unseen."""

from __future__ import annotations

import math
import random

PER_COLLECTION = 2
"""Pages in a collection, or in a window where that is shorter."""
LATENESS = 1.05
"""A thread wakes up late: a pause that is longer by this much is the pause that was meant."""
SETTLED_GAPS = 3
"""Gaps in a row, too long to see every collection, from which on it is the settings that make them."""


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
        """Whether the page is to be read now, since it would be too late when this is asked the next time."""
        next_call_at, self._called_at = 2 * now - self._called_at, now
        longest = min(self._collect, self._window) / PER_COLLECTION
        # Pages that kept step with the collections would never show more closely when these end.
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
        """Note that the page did not come: the settings are not to blame for the gap."""
        self._failed = True

    def take_unseen(self, now: float) -> int:
        """Note that the page answered; how many collections are known since then to have gone unseen before it."""
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
        """Whether it is the settings by which collections go unseen."""
        return self._long_gaps >= SETTLED_GAPS
