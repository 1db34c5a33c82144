"""Limits how often something may happen: a bucket of tokens per key, over a bounded number of keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

MOST_KEYS = 4096

KeyT = TypeVar("KeyT", bound=Hashable)


class RateLimit(Generic[KeyT]):
    """At most `per_second` on average and `burst` at once, for every key on its own.

    For each key, only the instant at which its bucket is full again is kept. Above MOST_KEYS, the least recently
    used key is forgotten; its bucket is full when it comes back.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._seconds = 1.0 / per_second
        self._depth = burst * self._seconds
        self._full_at: OrderedDict[KeyT, float] = OrderedDict()

    def ask(self, key: KeyT, now: float, tokens: int = 1) -> float:
        """Take tokens and return 0.0; if there are too few, take none and return the seconds until there are enough.

        `now` is in seconds on any clock that does not go backwards.
        """
        full_at = max(self._full_at.get(key, now), now) + tokens * self._seconds
        too_early = full_at - now - self._depth
        if too_early > self._seconds * 1e-6:  # do not refuse because of a rounding error
            return too_early
        self._set(key, full_at)
        return 0.0

    def take(self, key: KeyT, now: float, tokens: int) -> None:
        """Take tokens even if there are too few: the next who wants some waits for as many more."""
        self._set(key, max(self._full_at.get(key, now), now) + tokens * self._seconds)

    def _set(self, key: KeyT, full_at: float) -> None:
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > MOST_KEYS:
            self._full_at.popitem(last=False)

    def __len__(self) -> int:
        return len(self._full_at)
