"""Finds a reader of a framework's output by its name, which is the name of its file, and has what readers share.

A reader is one module in this package.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol, cast

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.registry import Registry


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts of a job that a framework's output does not have. None = not known."""

    world_size: int | None = None
    """All GPUs of the job."""
    data_parallel_size: int | None = None
    peak_flops: float | None = None
    """Dense FLOP/s of one GPU, effective over the precisions in use."""
    step_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a framework. None = neither stated nor known from the job's facts."""

    step: int | None = None
    name: str = ""
    """What the statement is about, if there are several: `actor`, `ref`, the labels of a counter."""
    flops: float | None = None
    """FLOPs of one GPU over `seconds`."""
    seconds: float | None = None
    flops_per_second: float | None = None
    """FLOP/s of one GPU."""
    mfu: float | None = None
    """MFU. If the framework's denominator is wrong and the job's facts have the right one, that one is used."""
    hfu: float | None = None
    """HFU instead of MFU, if the framework sums up what the hardware ran."""
    notes: tuple[str, ...] = ()
    """What to know before comparing the statement."""


def rated(one: Statement, rate: float, job: JobFacts) -> Statement:
    """The statement with the FLOP/s of one GPU, and the MFU that follows where the job's peak is known."""
    return replace(one, flops_per_second=rate, mfu=ratio(rate, job))


def ratio(flops_per_second: float | None, job: JobFacts) -> float | None:
    """FLOP/s of one GPU over its peak; None if either is not known."""
    if flops_per_second is None or job.peak_flops is None:
        return None
    return flops_per_second / job.peak_flops


def number(text: str, where: str) -> float:
    """A number of at least 0. Raises ConfigError for other text, which names its place."""
    try:
        value = float(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not a number") from error
    if not math.isfinite(value) or value < 0:
        raise ConfigError(f"{where}: {text!r} is not a number of at least 0")
    return value


def some(statements: list[Statement], what: str) -> list[Statement]:
    """The statements. If there are none, raises ConfigError, which says what is missing."""
    if not statements:
        raise ConfigError(f"no {what} in it")
    return statements


class StatementReader(Protocol):
    """What a module of this package offers."""

    __doc__: str | None

    def read(self, text: str, job: JobFacts) -> list[Statement]:
        """Every statement in the text. Raises ConfigError if there is none, or if one can't be read.

        `job` has what the text doesn't say.
        """


_MODULES: Registry[StatementReader] = Registry(__name__, "reader")
names, load, summary = _MODULES.names, _MODULES.load, _MODULES.summary


class Follower(Protocol):
    """Reads a log while it is written, and remembers earlier lines."""

    def line(self, line: str) -> Statement | None:
        """The statement on the `seconds` that end with this line; None when the line ends none.

        A statement with neither MFU nor FLOP/s only marks a beginning, from which the next ones count. Raises
        ConfigError for an unreadable statement; the caller may go on with the next line.
        """


class LogReader(StatementReader, Protocol):
    """A reader of a log, which grows line by line."""

    Follower: Callable[[JobFacts], Follower]
    """Makes a follower that has read nothing yet."""


@cache
def log_names() -> tuple[str, ...]:
    """The names of the readers of logs."""
    return tuple(name for name in names() if hasattr(load(name), "Follower"))


def follower(name: str, job: JobFacts) -> Follower:
    """A follower of one framework's log. Raises ConfigError, which lists the known ones."""
    if name not in log_names():
        raise ConfigError(f"unknown log {name!r}; known: {', '.join(log_names())}")
    return cast(LogReader, load(name)).Follower(job)
