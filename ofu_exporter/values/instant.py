"""One instant on the monotonic clock and in Unix time, a span of time on one of them, and the end of Unix time."""

from __future__ import annotations

from typing import NamedTuple

UNIX_LIMIT = 1e11
"""In seconds this is the year 5138. A time in milliseconds since 1970 is above the limit."""


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
