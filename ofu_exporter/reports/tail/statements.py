"""Makes reports from the statements in a training log, each with the interval that it covers.

The interval of a statement ends when its line was written: at the line's own time stamp if that is plausible,
otherwise now if the line is new. It is as long as the iterations took, and never begins before the end of the last
interval. A statement too short for a counter of the hardware is averaged with the next. One that has a step and no rate
covers no time: it says when the step was reached.
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

from ofu_exporter.client.intervals import Call, IntervalReport
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import readers
from ofu_exporter.flops.log_lines import plain
from ofu_exporter.flops.readers import JobFacts, Statement
from ofu_exporter.reports.tail.launcher_lines import Restarts
from ofu_exporter.reports.tail.lines import TailLine

OLDEST_SECONDS = 600.0
"""The agent compares no report that ended longer ago."""
SKEW_SECONDS = 2.0
"""Most that a time stamp may be in the future: it is rounded, and may be from another host's clock."""
SHORTEST_SECONDS = 0.1
"""An interval must be as long as the shortest window of a counter."""

UNKNOWN_AFTER = 500
"""Lines without a statement after which it is said which forms are known."""

_DATE = r"\b(?:(\d{4})-(\d\d)-(\d\d)|(\d\d)/(\d\d)/(\d{4}))"
"""ISO 8601, or the month first, as nanotron writes."""
_STAMP = re.compile(_DATE + r"[ T](\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?")
_RANK = r"(?:\d{1,6}: |\[[a-z]+\d{1,6}\]:|\(\w[^()]{0,99}\) ){0,3}"
"""What `srun -l`, torchrun and Ray put before a line."""
_CONTINUES = re.compile(_RANK + r"(?:\s|Step Time :)")
"""Begins a line that was written together with the one above it: the second one of Megatron-Bridge, too."""
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

    rate: str = ""
    """The field of a report that they are about."""
    weighted: float = 0.0
    """MFU, TFLOP/s or tokens a second, times seconds."""
    seconds: float = 0.0

    def plus(self, more: _ShortStatements) -> _ShortStatements:
        """Both together; only the new ones where they state another rate."""
        if self.rate != more.rate:
            return more
        return more._replace(
            weighted=self.weighted + more.weighted, seconds=self.seconds + more.seconds
        )


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
        """Up to when a report covers the time."""
        self._last: float | None = None
        """The end of the last statement, of whatever kind; None where a restart came after it."""
        self._step: int | None = None
        """The last step that was stated."""
        self._waiting = _ShortStatements()
        self._restarts = Restarts()
        self._lines = 0
        self._is_known = False
        self._stamped = ""
        self.drops: Counter[Drop] = Counter()

    @property
    def framework(self) -> str | None:
        """The framework that writes the log; None until a line with a rate says so."""
        return next(iter(self._followers)) if len(self._followers) == 1 else None

    def take(self, line: TailLine) -> Call | IntervalReport | None:
        """What one line states: the MFU, TFLOP/s or tokens of its interval, the step alone that was reached, or an
        event."""
        line = line._replace(text=plain(line.text))
        self._note(line)
        restart = self._restarts.line(line.text)
        if restart is not None:
            self._last = None
            return self._within_reach(*restart, line)
        alone, why = None, ""
        for name, follower in self._followers.items():
            try:
                statement = follower.line(line.text)
            except ConfigError as error:
                why = why or str(error)
                continue
            if statement is not None and statement.has_rate:
                self._is_known, self._followers = True, {name: follower}
                alone = statement
                break
            alone = alone or statement
        if why:
            self._drop(Drop.UNREADABLE, why)
        if alone is None:
            return None
        self._note_step(alone)
        return self._report(alone, line) if alone.has_rate else self._reached(alone, line)

    def close(self) -> None:
        """Say which forms are known if no line was a statement."""
        if self._lines < UNKNOWN_AFTER:
            self._say_forms()

    def _note(self, line: TailLine) -> None:
        """Count the line, and remember its time for lines that continue it."""
        self._lines += 1
        if self._lines == UNKNOWN_AFTER:
            self._say_forms()
        if not line.is_new and not (_CONTINUES.match(line.text) and not stamp(line.text)):
            self._stamped = line.text

    def _note_step(self, statement: Statement) -> None:
        """Forget when the last statement ended where an earlier step follows: the time since is that of a restart."""
        if statement.step is not None:
            self._last = None if statement.step < (self._step or 0) else self._last
            self._step = statement.step

    def _say_forms(self) -> None:
        if not self._is_known and self._lines:
            self._say(
                f"no line of this log is a statement of {', '.join(readers.log_names())}: "
                'report from the training loop instead ("From Python" in docs/reporting.md)'
            )

    def _reached(self, statement: Statement, line: TailLine) -> Call | IntervalReport | None:
        """The step of a statement without a rate, and when it was reached, or its event."""
        if statement.step is not None:
            self._is_known = True
        end = self._end(line)
        if end is None:
            return None
        if not statement.event:
            self._last = end
            return _step_alone(statement, end)
        seconds = statement.seconds or 0.0
        # The next statement is about the time before the event, too, and about none that was stated.
        last = end if self._last is None else self._last
        self._last = max(last, min(last + seconds, end))
        self._until = end if self._until is None else max(self._until, end)
        return IntervalReport(end - seconds, end, {}, statement.step, statement.event)

    def _within_reach(self, start: float, end: float, line: TailLine) -> IntervalReport | None:
        """A restart, unless it is too long ago; one from a host whose clock is ahead ends now."""
        if end < self._clock() - OLDEST_SECONDS:
            self._drop(Drop.TOO_OLD, f"over {OLDEST_SECONDS:g} s old: {_short(line.text)}")
            return None
        ahead = max(0.0, end - self._clock())
        return IntervalReport(start - ahead, end - ahead, {}, None, "restart")

    def _report(self, statement: Statement, line: TailLine) -> Call | None:
        end = self._end(line)
        if end is None:
            return None
        if self._until is not None and self._until > self._clock() + SKEW_SECONDS:
            self._until = self._last = None  # this host's clock was set back
        if self._until is not None and self._until > end + SKEW_SECONDS:
            self._drop(Drop.REPEATED, f"written before the last statement: {_short(line.text)}")
            return None
        seconds = self._since(end) if statement.seconds is None else statement.seconds
        self._last = end
        if seconds is None:
            self._until = end
            self._drop(Drop.NO_LENGTH, f"does not say how long it took: {_short(line.text)}")
            return _step_alone(statement, end)
        return self._mean(_of_interval(statement, seconds), end, statement.step)

    def _mean(self, more: _ShortStatements, end: float, step: int | None) -> Call | None:
        """The mean of the held statements and the new one; None until they are long enough together."""
        self._waiting = together = self._waiting.plus(more)
        start = max(end - together.seconds, -math.inf if self._until is None else self._until)
        if end - start < SHORTEST_SECONDS:
            return None
        self._waiting, self._until = _ShortStatements(), end
        return Call(end, {together.rate: together.weighted / together.seconds}, step, start)

    def _since(self, end: float) -> float | None:
        """Seconds since the last statement, even if that one is held back or has no rate."""
        return None if self._last is None else max(0.0, end - self._last)

    def _end(self, line: TailLine) -> float | None:
        """When the line was written; None if that is not known or too long ago."""
        now = self._clock()
        written = stamp(line.text, now)
        if written is None and not line.is_new and _CONTINUES.match(line.text):
            written = stamp(self._stamped, now)
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


def _step_alone(statement: Statement, end: float) -> Call | None:
    if statement.step is None:
        return None
    start = None if statement.seconds is None else end - statement.seconds
    return Call(end, {}, statement.step, start)


def _of_interval(statement: Statement, seconds: float) -> _ShortStatements:
    """What a statement with a rate says of its seconds."""
    if statement.mfu is not None:
        return _ShortStatements("mfu", statement.mfu * seconds, seconds)
    if statement.flops_per_second is not None:
        tflops = statement.flops_per_second / 1e12 * seconds
        if statement.seconds is None and statement.flops is not None:
            tflops = statement.flops / 1e12  # the rate may be that of a longer time
        return _ShortStatements("tflops_per_gpu", tflops, seconds)
    if statement.tokens is not None:
        return _ShortStatements("tokens_per_second", statement.tokens, seconds)
    rate = statement.tokens_per_second or 0.0
    return _ShortStatements("tokens_per_second", rate * seconds, seconds)


def stamp(text: str, now: float = math.inf) -> float | None:
    """Unix seconds of the time at the beginning of a line; without a zone it is this host's local time.

    Of the hour that comes twice when summer ends, it is the last one until `now`.
    """
    match = _STAMP.search(text, 0, _STAMP_WITHIN)
    if match is None:
        return None
    year, month, day, us_month, us_day, us_year, clock, fraction, zone = match.groups()
    try:
        date = f"{year or us_year}-{month or us_month}-{day or us_day}"
        text, form = f"{date} {clock} {zone or ''}", "%Y-%m-%d %H:%M:%S "
        written = datetime.strptime(text, form + "%z" * bool(zone))  # noqa: DTZ007 - below
        second, first = (written.replace(fold=fold).astimezone().timestamp() for fold in (1, 0))
        return (second if second <= now + SKEW_SECONDS else first) + float(f"0.{fraction or 0}")
    except (OverflowError, ValueError):
        return None


def _short(text: str) -> str:
    return repr(text.strip()[:80])
