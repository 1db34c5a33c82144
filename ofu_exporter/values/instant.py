"""One instant on the monotonic clock and in Unix time."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """One instant on both clocks."""

    monotonic: float
    unix: float

    def at(self, monotonic: float) -> Now:
        """Another instant, which the monotonic clock tells."""
        return Now(monotonic, self.unix - (self.monotonic - monotonic))

    def at_unix(self, unix: float) -> Now:
        """Another instant, which Unix time tells."""
        return Now(self.monotonic - (self.unix - unix), unix)
