"""One instant on the monotonic clock and in Unix time, and a span of time on one of them."""

from __future__ import annotations

from typing import NamedTuple


class Instant(NamedTuple):
    """One instant on both clocks, in seconds."""

    monotonic: float
    unix: float

    def at(self, monotonic: float) -> Instant:
        """The instant at which the monotonic clock says `monotonic`."""
        return Instant(monotonic, self.unix - (self.monotonic - monotonic))

    def at_unix(self, unix: float) -> Instant:
        """The instant at Unix time `unix`."""
        return Instant(self.monotonic - (self.unix - unix), unix)


class Span(NamedTuple):
    """A span of time, in seconds on one clock."""

    start: float
    end: float
