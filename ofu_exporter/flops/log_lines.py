"""Reads lines of a log of which each states a step: what the readers of several frameworks share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SUFFIXES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
"""As frameworks shorten large numbers: 12.0K."""


def plain(line: str) -> str:
    """A line without colours, which terminals and some loggers of files get."""
    return _COLOUR.sub("", line) if "\x1b" in line else line


class LogQuantity(NamedTuple):
    """A number in a line: its pattern, of which the first group is the number, its name in errors, and its unit."""

    pattern: re.Pattern[str]
    where: str
    unit: float

    def of(self, line: str) -> float | None:
        """The number in the unit's multiple of 1; None where the line lacks it. Raises ConfigError for no number."""
        match = self.pattern.search(line)
        if match is None:
            return None
        text, unit = match[1].replace(",", ""), self.unit
        if text[-1:] in _SUFFIXES:
            text, unit = text[:-1], unit * _SUFFIXES[text[-1]]
        return number(text, self.where) * unit


def quantity(pattern: str, where: str, unit: float = 1.0) -> LogQuantity:
    return LogQuantity(re.compile(pattern), where, unit)


@dataclass(frozen=True)
class LineForm:
    """The form of a line that states a step. Only the step is needed; MFU and rates are those of one GPU."""

    step: re.Pattern[str]
    flops_per_second: LogQuantity | None = None
    mfu: LogQuantity | None = None
    seconds: LogQuantity | None = None
    """Of one step."""
    tokens_per_second: LogQuantity | None = None
    """Of all GPUs."""
    also: str = ""
    """What a line of this form has too, so that no other line is taken for one."""
    is_since_last: bool = False
    """Whether its seconds are the mean of the steps since the line before."""
    begins: str = ""
    """What stands in the line before the first step of a run."""
    keeps_first: re.Pattern[str] | None = None
    """What a line has where the first line of a run is in the mean of the second, too."""

    def follower(self, job: JobFacts) -> Follower:
        """What reads a log of such lines."""
        return SinceLast(self, job) if self.is_since_last else LineFollower(self.statement, job)

    def statement(self, line: str, job: JobFacts) -> Statement | None:
        """What a line states: FLOP/s where it has them, otherwise an MFU, otherwise the step alone."""
        step = self.step.search(line) if self.also in line else None
        if step is None:
            return None
        rate, mfu, seconds, tokens = (
            None if one is None else one.of(line)
            for one in (self.flops_per_second, self.mfu, self.seconds, self.tokens_per_second)
        )
        at = int(number(step[1], "step"))
        one = Statement(at, seconds=seconds, mfu=mfu, tokens_per_second=tokens)
        if rate is None:
            return one
        flops = None if seconds is None else rate * seconds
        return with_rate(replace(one, flops=flops, mfu=None), rate, job)


ReadLine = Callable[[str, JobFacts], Statement | None]


class Follower(Protocol):
    """Reads a log while it is written, and remembers earlier lines."""

    def line(self, line: str) -> Statement | None:
        """The statement on the `seconds` that end with this line; None when the line ends none.

        A statement without a rate says which step was reached, and the next ones count from its line on. Raises
        ConfigError for an unreadable statement; the caller may go on with the next line.
        """


class LineFollower:
    """Reads line by line: each line is about itself."""

    def __init__(self, read_line: ReadLine, job: JobFacts) -> None:
        self._read_line = read_line
        self._job = job

    def line(self, line: str) -> Statement | None:
        return self._read_line(line, self._job)


class SinceLast(LineFollower):
    """Remembers the last logged step, because a line is about all steps since then."""

    def __init__(self, form: LineForm, job: JobFacts) -> None:
        super().__init__(form.statement, job)
        self._form = form
        self._step: int | None = None
        self._begins = False
        self._first: Statement | None = None
        """The first line of a run, where the next one has its step in it."""

    def line(self, line: str) -> Statement | None:
        """The statement of a line: its seconds x the steps since the line before.

        The first line, and one after a restart, counts for one step.
        """
        if self._form.begins and self._form.begins in line:
            self._step, self._begins = None, True
        one = super().line(line)
        if one is None or one.step is None:
            return one
        before, self._step = self._step, one.step
        first, self._first = self._first, None
        if before is not None and before < one.step:
            return _of_steps(one, one.step - before, first, self._job)
        is_first = self._begins or before is not None or one.step == 1
        self._begins = False
        if is_first and self._form.keeps_first and self._form.keeps_first.search(line):
            self._first = one
        return one


def _of_steps(mean: Statement, count: int, first: Statement | None, job: JobFacts) -> Statement:
    """The statement of all steps that a mean is of, without the first step of the run where that is in it."""
    if mean.seconds is None:
        return mean
    seconds, flops = mean.seconds * count, (mean.flops or 0.0) * count
    if first is not None and (first.seconds or 0.0) < mean.seconds + seconds:
        seconds += mean.seconds - (first.seconds or 0.0)
        flops += (mean.flops or 0.0) - (first.flops or 0.0)
    whole = replace(mean, seconds=seconds)
    if mean.flops is None:
        return whole
    return with_rate(replace(whole, flops=flops), flops / seconds, job) if seconds else whole
