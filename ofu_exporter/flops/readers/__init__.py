"""What a reader of a framework's output is, and how one is found by its file's name.

A reader is one module in this package; its file name is the reader's name. It has one public function, `read`, that
takes the output as text and a `Job` with what the output doesn't say.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Protocol, cast

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.reports import Job, Reported


class Reader(Protocol):
    """What a module of this package offers."""

    __doc__: str | None

    def read(self, text: str, job: Job) -> list[Reported]:
        """Every statement in the text. Raises ConfigError when there is none, or one can't be read."""


@cache
def names() -> tuple[str, ...]:
    """Every reader, by the name of its file."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> Reader:
    """The module of one reader. Raises ConfigError that lists the known names."""
    if name not in names():
        raise ConfigError(f"unknown reader {name!r}; known: {', '.join(names())}")
    return cast(Reader, importlib.import_module(f"{__name__}.{name}"))


def summary(name: str) -> str:
    """The first line of a reader's docstring: what it reads."""
    return (load(name).__doc__ or "").strip().split("\n", maxsplit=1)[0]
