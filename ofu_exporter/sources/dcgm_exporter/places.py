"""Decides which GPUs of a page are measured if the page names more than the agent measures."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class Places:
    """The GPUs that have been measured longest come first, then the first of the page.

    So when a page begins to name GPUs that do not exist, no real GPU loses its place.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._ranks: dict[Hashable, int] = {}

    def knows(self, key: Hashable) -> bool:
        """Whether the GPU has been measured and kept its place."""
        return key in self._ranks

    def taken(self, keys: Iterable[Hashable]) -> frozenset[Hashable]:
        """The keys that get a place: the measured GPUs, then the first of the others."""
        named = dict.fromkeys(keys)
        taken = sorted(named, key=lambda key: self._ranks.get(key, self.most))[: self.most]
        for key in taken:
            if len(self._ranks) < self.most:
                self._ranks.setdefault(key, len(self._ranks))
        return frozenset(taken)
