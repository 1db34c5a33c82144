"""What a counting convention is, and how one is found by its file's name.

A convention is one module in this package; its file name is what `--convention` takes. It has four public names:

- `RECOMPUTES_ALL`: whether full recomputation repeats the whole forward pass, or the layers only;
- `EXACT`: whether its terms are the model's own, so that parts can be frozen and adapters added;
- `terms`: what it counts of a model;
- `warnings`: what it is known to count otherwise than the model executes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import Protocol, cast

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.models import Counting, Model
from ofu_exporter.flops.terms import Term


class Convention(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    RECOMPUTES_ALL: bool
    EXACT: bool

    def terms(self, model: Model, counting: Counting) -> Sequence[Term]:
        """What it counts. Raises ConfigError for a model it is not defined for."""

    def warnings(self, model: Model, counting: Counting) -> Sequence[str]:
        """What it is known to count otherwise than this model executes."""


@cache
def names() -> tuple[str, ...]:
    """Every convention."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def load(name: str) -> Convention:
    """The module of one convention. Raises ConfigError that lists the known names."""
    if name not in names():
        raise ConfigError(f"unknown convention {name!r}; known: {', '.join(names())}")
    return cast(Convention, importlib.import_module(f"{__name__}.{name}"))


def summary(name: str) -> str:
    """The first line of a convention's docstring: what it counts."""
    return (load(name).__doc__ or "").strip().split("\n", maxsplit=1)[0]
