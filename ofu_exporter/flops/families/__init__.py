"""Finds a family of architectures by its name, which is the name of its file.

A family is one module in this package, with a section in `neutral_fields.txt` if configurations have fields that it
doesn't read.
"""

from __future__ import annotations

import re
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

NEAR = 0.85
"""How alike two names must be, of 1, so that one is called the nearest."""
_ENDING = re.compile(r"(For[A-Z]\w*|(LMHead|Text)?Model)$")

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
        near = _nearest(architecture, family_by_name)
        hint = f"; the nearest is {near}" if near else ""
        unread = f"architectures: {architecture!r} has no closed form here{hint}"
        raise ConfigError(f"{unread}. {WAYS_ON}")
    return family_by_name[architecture]


def of_type(model_type: str) -> str | None:
    """The architecture that a family reads of a model type of transformers, such as `llama4_text`; None without one."""
    from ofu_exporter.flops.architectures import known_architectures  # noqa: PLC0415 - only without `architectures`

    readable = architectures()
    named = [row.architecture for row in known_architectures() if row.kind == model_type]
    return next((name for name in named if name in readable), None)


def _nearest(architecture: str, readable: Collection[str]) -> str | None:
    """The architecture of nearly the same model: what comes before `For` or `Model` is compared, not the whole name."""
    import difflib  # noqa: PLC0415 - only for a name that is not known

    stems: dict[str, list[str]] = {}
    for name in readable:
        stems.setdefault(_stem(name), []).append(name)
    near = difflib.get_close_matches(_stem(architecture[:200]), stems, 1, cutoff=NEAR)
    if not near:
        return None
    return difflib.get_close_matches(architecture[:200], stems[near[0]], 1, cutoff=0.0)[0]


def _stem(architecture: str) -> str:
    return _ENDING.sub("", architecture).casefold()
