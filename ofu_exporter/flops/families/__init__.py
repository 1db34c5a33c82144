"""Finds a family of architectures by its name, which is the name of its file.

A family is one module in this package, with a section in `neutral_fields.txt` if configurations have fields that it
doesn't read.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Protocol

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.support.extras import install_command
from ofu_exporter.support.registry import Registry


class Family(Protocol):
    """What a module of this package offers."""

    __doc__: str | None
    ARCHITECTURES: Collection[str]
    """The entries of `architectures` (or `_class_name` of diffusers) that it reads."""

    def read(self, fields: Fields, architecture: str) -> Model:
        """The model of a configuration. Raises ConfigError, which names the field that is not understood."""


WAYS_ON = (
    "Two ways on: `flops CONFIG --executed --save FILE` counts what torch executes of it and writes a recipe, which "
    f"stands wherever a config.json does ({install_command('executed')}); a list of its layers, "
    '{"architectures": ["Modules"], ...} (docs/flops.md). `ofu-exporter list architectures` prints what is known.'
)
"""What the user can do about a model that no family reads."""

_MODULES: Registry[Family] = Registry(__name__, "family")
names, load = _MODULES.names, _MODULES.load


@cache
def architectures() -> dict[str, str]:
    """The family of every architecture."""
    return {architecture: name for name in names() for architecture in load(name).ARCHITECTURES}


def family_of(architecture: str) -> str:
    """The family that reads an architecture. Raises ConfigError, which names the nearest one and the ways on."""
    family_by_name = architectures()
    if architecture not in family_by_name:
        import difflib  # noqa: PLC0415 - only for a name that is not known

        near = difflib.get_close_matches(architecture, family_by_name, 1)
        hint = f"; the nearest is {near[0]}" if near else ""
        unread = f"architectures: {architecture!r} has no closed form here{hint}"
        raise ConfigError(f"{unread}. {WAYS_ON}")
    return family_by_name[architecture]
