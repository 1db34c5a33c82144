"""Finds a reader of what a framework writes by its name: that of a file here, or of a form of lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.log_forms import FORMS
from ofu_exporter.flops.log_lines import Follower, plain
from ofu_exporter.flops.statements import JobFacts, Statement, some
from ofu_exporter.support.registry import Registry

__all__ = ["JobFacts", "Statement", "follower", "load", "log_names", "names"]

_MODULES: Registry[ModuleType] = Registry(__name__, "reader")
"""Each has `Follower`, which makes a follower of a log, or `read`, which reads a text as a whole, or both."""


class Reader:
    """Reads what one framework writes."""

    def __init__(self, name: str) -> None:
        module = None if name in FORMS else _MODULES.load(name)
        self._name = name
        self._read: Callable[[str, JobFacts], list[Statement]] | None
        self._read = getattr(module, "read", None)
        self.follower: Callable[[JobFacts], Follower] | None
        """Makes a follower that has read nothing yet; None for what does not grow line by line."""
        self.follower = getattr(module, "Follower", None) if module else FORMS[name].follower

    def read(self, text: str, job: JobFacts) -> list[Statement]:
        """Every statement in the text. Raises ConfigError if there is none, or if one can't be read.

        `job` has what the text doesn't say.
        """
        if self._read is not None:
            return self._read(text, job)
        assert self.follower is not None
        following = self.follower(job)
        lines = (following.line(plain(line)) for line in text.splitlines())
        return some(
            [one for one in lines if one and one.has_rate], f"rate that {self._name} states"
        )


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted({*_MODULES.names(), *FORMS}))


def load(name: str) -> Reader:
    """One reader. Raises ConfigError, which lists the known names."""
    if name not in names():
        raise ConfigError(f"unknown reader {name!r}; known: {', '.join(names())}")
    return Reader(name)


@cache
def log_names() -> tuple[str, ...]:
    """The names of the readers of logs."""
    return tuple(name for name in names() if load(name).follower)


def follower(name: str, job: JobFacts) -> Follower:
    """A follower of one framework's log. Raises ConfigError, which lists the known ones."""
    make = load(name).follower if name in log_names() else None
    if make is None:
        raise ConfigError(f"unknown log {name!r}; known: {', '.join(log_names())}")
    return make(job)
