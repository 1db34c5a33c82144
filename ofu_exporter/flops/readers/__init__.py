"""Finds a reader of a framework's output by its name, which is the name of its file.

A reader is one module in this package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol, cast

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.log_lines import Follower
from ofu_exporter.flops.statements import JobFacts, Statement
from ofu_exporter.support.registry import Registry

__all__ = ["JobFacts", "Statement", "follower", "load", "log_names", "names", "summary"]


class StatementReader(Protocol):
    """What a module of this package offers."""

    __doc__: str | None

    def read(self, text: str, job: JobFacts) -> list[Statement]:
        """Every statement in the text. Raises ConfigError if there is none, or if one can't be read.

        `job` has what the text doesn't say.
        """


_MODULES: Registry[StatementReader] = Registry(__name__, "reader")
names, load, summary = _MODULES.names, _MODULES.load, _MODULES.summary


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
