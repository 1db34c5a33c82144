"""Merges flags, environment and configuration file into one model of settings, and refuses unknown settings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.durations import duration, seconds
from ofu_exporter.support.small_files import read_small


def shown(field: FieldInfo, value: object) -> str:
    """A value of a setting as people write it; only a duration has a unit."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    is_duration = any(getattr(each, "func", None) is seconds for each in field.metadata)
    if isinstance(value, float):
        return duration(value) if is_duration else f"{value:g}"
    return str(value)


class Given(NamedTuple):
    """The value of one setting, and where the user set it."""

    value: object
    origin: str


Layer = Mapping[str, Given]
ModelT = TypeVar("ModelT", bound=BaseModel)


def file_layer(path: Path) -> dict[str, Given]:
    """The settings of a YAML file. Raises ConfigError, which names the file and, where known, the line."""
    from ofu_exporter.support import checked_yaml

    try:
        loaded = checked_yaml.load(read_small(path, "configuration file"))
    except ValueError as error:
        raise ConfigError(f"configuration file {path}: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"configuration file {path}: the top level must be `key: value` lines")
    return {
        str(key).replace("-", "_"): Given(value, f"{key} in {path}")
        for key, value in loaded.items()
    }


def environment_layer(
    environ: Mapping[str, str], settings: Iterable[str]
) -> tuple[dict[str, Given], tuple[str, ...]]:
    """The settings of the OFU_... variables, and one sentence for each variable that is no setting.

    The user may not have set such a variable: Kubernetes sets OFU_PORT and others in every pod of a namespace that
    has a Service called ofu. There is no sentence for OFU_EXPORTER_..., which a Service called ofu-exporter sets, and
    for OFU_TEST_....
    """
    names = sorted(settings)
    layer, ignored = {}, []
    for name, value in environ.items():
        if not name.startswith("OFU_") or name.startswith(("OFU_EXPORTER_", "OFU_TEST_")):
            continue
        key = name.removeprefix("OFU_").lower()
        if key in names:
            layer[key] = Given(value, name)
        elif key not in {"config", "agent"}:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"; did you mean OFU_{near[0].upper()}?" if near else ""
            ignored.append(f"the variable {name} is not a setting and is ignored{hint}")
    return layer, tuple(ignored)


def check_known(layer: Layer, settings: Iterable[str]) -> None:
    """Raise ConfigError for the first key that is no setting; the error names the nearest that is."""
    names = sorted(settings)
    for key, setting in layer.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(names)}"
            raise ConfigError(f"unknown setting {setting.origin}{hint}")


def build(model: type[ModelT], layer: Layer, owner: str = "the agent") -> ModelT:
    """Make a model from its own keys. Raises ConfigError, which names the setting and its origin."""
    of_model = {key: setting for key, setting in layer.items() if key in model.model_fields}
    try:
        return model.model_validate({key: setting.value for key, setting in of_model.items()})
    except ValidationError as error:
        raise ConfigError(
            "; ".join(_explain(item, of_model, owner) for item in error.errors())
        ) from error


def _explain(item: Any, of_model: Layer, owner: str) -> str:
    location = [str(part) for part in item["loc"]]
    setting = of_model.get(location[0]) if location else None
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "missing" and setting is None:
        flag = location[0].replace("_", "-")
        return (
            f"{owner} needs --{flag} (or OFU_{location[0].upper()}, or {location[0]} in the file)"
        )
    inner = ".".join(location[1:])
    where = (setting.origin if setting else ".".join(location)) + (f" ({inner})" if inner else "")
    return f"{where}: {message}"
