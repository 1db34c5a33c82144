"""What a reader of a framework's output is, and how one is found by its file's name.

A reader is one module in this package; its file name is the name of the reader. Its public function `read` takes the
output as text, and a `JobFacts` with what the output doesn't say. A reader of a log has a second one, `follow`, that
takes the output line by line, as it is written.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol, cast

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement
from ofu_exporter.support.registry import Registry


class StatementReader(Protocol):
    """What a module of this package offers."""

    __doc__: str | None

    def read(self, text: str, job: JobFacts) -> list[Statement]:
        """Every statement in the text. Raises ConfigError when there is none, or one can't be read."""


_MODULES: Registry[StatementReader] = Registry(__name__, "reader")
names, load, summary = _MODULES.names, _MODULES.load, _MODULES.summary


class Follower(Protocol):
    """Reads a log while it is written, and knows what earlier lines said."""

    def line(self, line: str) -> Statement | None:
        """What is said of the `seconds` that end with this line; None when it ends no statement.

        With neither an MFU nor FLOP/s it's a statement that only later ones can be compared with.
        Raises ConfigError for a statement that can't be read; the next line may be given all the same.
        """


class LogReader(StatementReader, Protocol):
    """A reader of a log, which grows line by line."""

    def follow(self, job: JobFacts) -> Follower:
        """A follower that has seen nothing yet."""


@cache
def log_names() -> tuple[str, ...]:
    """The readers of logs."""
    return tuple(name for name in names() if hasattr(load(name), "follow"))


def follower(name: str, job: JobFacts) -> Follower:
    """A follower of one framework's log. Raises ConfigError that lists those that have one."""
    if name not in log_names():
        raise ConfigError(f"unknown log {name!r}; known: {', '.join(log_names())}")
    return cast(LogReader, load(name)).follow(job)
