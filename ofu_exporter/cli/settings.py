"""Flags, environment and file made into settings: the flags are generated from the models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ofu_exporter import sources
from ofu_exporter.config import (
    Given,
    Layer,
    Settings,
    build,
    check_known,
    environment_layer,
    file_layer,
    merge,
)
from ofu_exporter.daemon import Configured
from ofu_exporter.errors import ConfigError

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def option_models() -> dict[str, type[BaseModel]]:
    """The options of every source, by its name."""
    return {name: sources.load(name).Options for name in sources.names()}


def setting_flags(command: CommandT) -> CommandT:
    """Give a command a flag for every setting, every source option, and --config."""
    owned: list[tuple[str, type[BaseModel]]] = [("", Settings), *option_models().items()]
    for owner, model in reversed(owned):
        for name, field in reversed(model.model_fields.items()):
            if name != "gpus":  # a table of tables: in the file only
                command = _flag(name, field, owner)(command)
    return click.option("--config", type=Path, metavar="FILE", help="YAML file of settings.")(
        command
    )


def _flag(name: str, field: FieldInfo, owner: str) -> Callable[[CommandT], CommandT]:
    flag = "--" + name.replace("_", "-")
    help_ = field.description or ""
    if owner:
        help_ = f"[{owner}] {help_}"
    if field.annotation is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=help_)
    if not field.is_required():
        help_ = f"{help_} Default: {_shown(field)}."
    metavar = str(field.examples[0]) if field.examples else name.upper()
    return click.option(flag, name, default=None, metavar=metavar, help=help_)


def _shown(field: FieldInfo) -> str:
    default = field.default
    return f"{default:g}s" if isinstance(default, float) else str(default)


def load(
    flags: Mapping[str, Any],
    preset: Layer | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Configured:
    """Make settings of the flags that were given, the environment and the file.

    A flag wins over `preset` (what the command itself sets), that over the environment, that over
    the file. Raises ConfigError that names what cannot be used.
    """
    known = {*Settings.model_fields}
    for model in option_models().values():
        known.update(model.model_fields)
    given = {
        name: Given(value, "--" + name.replace("_", "-"))
        for name, value in flags.items()
        if value is not None and name != "config"
    }
    chosen = flags.get("config") or environ.get("OFU_CONFIG")
    path = Path(chosen) if chosen else None
    from_file = file_layer(path) if path else {}
    check_known(from_file, known)
    layer = merge(from_file, environment_layer(environ, known), preset or {}, given)
    settings = build(Settings, layer)
    if settings.source not in ("auto", *sources.names()):
        known_sources = ", ".join(["auto", *sources.names()])
        raise ConfigError(
            f"unknown source {settings.source!r}; known: {known_sources} ({layer['source'].origin})"
        )
    return Configured(settings, source_options(settings.source, layer), path)


def source_options(source: str, layer: Layer) -> dict[str, BaseModel]:
    """The options of the sources in use. Raises ConfigError for an option of one that is not."""
    used = sources.automatic() if source == "auto" else [source]
    models = {name: sources.load(name).Options for name in used}
    usable = {key for model in models.values() for key in model.model_fields}
    for key, given in layer.items():
        if key in Settings.model_fields or key in usable:
            continue
        owners = [name for name, model in option_models().items() if key in model.model_fields]
        raise ConfigError(
            f"{given.origin} is an option of source {', '.join(owners)}, but the source is {source}"
        )
    return {name: build(model, layer, f"source {name}") for name, model in models.items()}
