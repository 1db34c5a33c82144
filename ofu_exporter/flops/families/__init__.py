"""What a family of architectures is, and how one is found by its file's name.

A family is one module in this package; its file name is the family's name. It has three public names:

- `ARCHITECTURES`: the entries of `architectures` (or `_class_name` of diffusers) that it reads;
- `NEUTRAL`: fields of its configurations that change no matrix product, beyond the common ones;
- `read`: turns the fields of a configuration into a model.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from functools import cache
from typing import Protocol, cast

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model


class Family(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    ARCHITECTURES: Collection[str]
    NEUTRAL: frozenset[str]

    def read(self, fields: Fields, architecture: str) -> Model:
        """Read a configuration. Raises ConfigError that names the field it cannot be sure of."""


@cache
def names() -> tuple[str, ...]:
    """Every family, by the name of its file."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> Family:
    """The module of one family. Raises ConfigError that lists the known names."""
    if name not in names():
        raise ConfigError(f"unknown family {name!r}; known: {', '.join(names())}")
    return cast(Family, importlib.import_module(f"{__name__}.{name}"))


@cache
def architectures() -> dict[str, str]:
    """The family of every architecture."""
    return {architecture: name for name in names() for architecture in load(name).ARCHITECTURES}


def family_of(architecture: str) -> str:
    """The family that reads an architecture. Raises ConfigError that lists the known ones."""
    known = architectures()
    if architecture not in known:
        listed = ", ".join(sorted(known))
        raise ConfigError(f"architectures: {architecture!r} is not known; known: {listed}")
    return known[architecture]
