"""Makes reports from the statements in a training log, each with the interval that it covers.

The interval of a statement ends when its line was written: at the line's own time stamp if that is plausible,
otherwise now if the line is new. It is as long as the iterations took, and never begins before the end of the last
interval. A statement too short for a counter of the hardware is averaged with the next.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from ofu_exporter.client.intervals import Call
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import readers
from ofu_exporter.flops.readers import JobFacts, Statement
from ofu_exporter.reports.tail.lines import TailLine

OLDEST_SECONDS = 600.0
"""The agent compares no report that ended longer ago."""
SKEW_SECONDS = 2.0
"""Most that a time stamp may be in the future: it is rounded, and may be from another host's clock."""
SHORTEST_SECONDS = 0.1
"""An interval must be as long as the shortest window of a counter."""

_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?")
_STAMP_WITHIN = 200
"""A time stamp must be within this number of characters at the beginning of a line."""


class Drop(str, Enum):
    """Why a statement makes no report."""

    UNREADABLE = "unreadable"
    TOO_OLD = "too_old"
    NO_TIME = "no_time"
    NO_LENGTH = "no_length"
    REPEATED = "repeated"


class _ShortStatements(NamedTuple):
    """Statements too short, or too close to the one before, to be reported alone."""

    weighted: float = 0.0
    """MFU or TFLOP/s times seconds."""
    seconds: float = 0.0


class LogTail:
    def __init__(
        self,
        framework: str,
        job: JobFacts,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """With the framework `auto`, the first line that is a statement decides.

        `say` gets every kind of problem once. Raises ConfigError for an unknown framework.
        """
        names = readers.log_names() if framework == "auto" else (framework,)
        self._followers = {name: readers.follower(name, job) for name in names}
        self._say = say
        self._clock = clock
        self._until: float | None = None
        self._waiting = _ShortStatements()
        self.drops: Counter[Drop] = Counter()

    @property
    def framework(self) -> str | None:
        """The framework that writes the log; None until a line says so."""
        return next(iter(self._followers)) if len(self._followers) == 1 else None

    def take(self, line: TailLine) -> Call | None:
        """What one line states of its interval, the MFU or TFLOP/s, if it ends a statement whose time is known."""
        for name, follower in self._followers.items():
            try:
                statement = follower.line(line.text)
            except ConfigError as error:
                self._drop(Drop.UNREADABLE, str(error))
                continue
            if statement is not None:
                self._followers = {name: follower}
                return self._report(statement, line)
        return None

    def _report(self, statement: Statement, line: TailLine) -> Call | None:
        rate = statement.flops_per_second
        if statement.mfu is None and rate is None:
            return None
        end = self._end(line)
        if end is None:
            return None
        if self._until is not None and self._until > self._clock() + SKEW_SECONDS:
            self._until = None  # this host's clock was set back
        if self._until is not None and self._until > end + SKEW_SECONDS:
            self._drop(Drop.REPEATED, f"written before the last statement: {_short(line.text)}")
            return None
        seconds = self._since(end) if statement.seconds is None else statement.seconds
        if seconds is None:
            self._until = end
            self._drop(Drop.NO_LENGTH, f"does not say how long it took: {_short(line.text)}")
            return None
        value = statement.mfu if statement.mfu is not None else (rate or 0.0) / 1e12
        return self._mean(_ShortStatements(value * seconds, seconds), end, statement)

    def _mean(self, more: _ShortStatements, end: float, statement: Statement) -> Call | None:
        """The mean of the held statements and the new one; None until they are long enough together."""
        self._waiting = together = _ShortStatements(
            *(a + b for a, b in zip(self._waiting, more, strict=True))
        )
        start = max(end - together.seconds, -math.inf if self._until is None else self._until)
        if end - start < SHORTEST_SECONDS:
            return None
        self._waiting, self._until = _ShortStatements(), end
        rate = "tflops_per_gpu" if statement.mfu is None else "mfu"
        return Call(end, {rate: together.weighted / together.seconds}, statement.step, start)

    def _since(self, end: float) -> float | None:
        """Seconds since the last statement, even if that one is held back."""
        if self._until is None:
            return None
        return max(0.0, end - self._until - self._waiting.seconds)

    def _end(self, line: TailLine) -> float | None:
        """When the line was written; None if that is not known or too long ago."""
        now, written = self._clock(), stamp(line.text)
        if line.is_new and written is not None and abs(now - written) <= SKEW_SECONDS:
            return now  # stamps are whole seconds, several iterations may have the same
        if written is not None and now - OLDEST_SECONDS <= written <= now + SKEW_SECONDS:
            return min(written, now)
        if line.is_new:
            return now
        if written is not None and written < now:
            self._drop(Drop.TOO_OLD, f"over {OLDEST_SECONDS:g} s old: {_short(line.text)}")
        else:
            self._drop(Drop.NO_TIME, f"it is not known when it was written: {_short(line.text)}")
        return None

    def _drop(self, why: Drop, detail: str) -> None:
        self.drops[why] += 1
        if self.drops[why] == 1:
            self._say(f"{why.value}: {detail}; further ones are counted")


def stamp(text: str) -> float | None:
    """Unix seconds of the time at the beginning of a line; without a zone it is this host's local time."""
    match = _STAMP.search(text, 0, _STAMP_WITHIN)
    if match is None:
        return None
    date, clock, fraction, zone = match.groups()
    try:
        text, form = f"{date} {clock} {zone or ''}", "%Y-%m-%d %H:%M:%S "
        written = datetime.strptime(text, form + "%z" * bool(zone)).astimezone()
        return written.timestamp() + float(f"0.{fraction or 0}")
    except (OverflowError, ValueError):
        return None


def _short(text: str) -> str:
    return repr(text.strip()[:80])
