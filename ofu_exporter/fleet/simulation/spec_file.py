"""Reads a fleet's specification from YAML, and names the line of whatever cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.spec import FleetSpec
from ofu_exporter.support import strict_yaml
from ofu_exporter.support.small_files import read_small

SHIPPED = Path(__file__).parents[1] / "specs"
"""The specifications that come with the program."""
Place = Sequence[str | int]
"""Keys and numbers that lead to a value: ("jobs", 2, "gpus")."""


@dataclass(frozen=True)
class SpecFile:
    """A specification, and where each of its values stands."""

    path: Path
    spec: FleetSpec
    _root: yaml.Node | None

    def error(self, place: Place, problem: str) -> ConfigError:
        """An error that names the line of a value, or of the nearest one around it."""
        return _error(self.path, self._root, place, problem)


def shipped(name: Path) -> Path | None:
    """The specification of this name that comes with the program; a file of that name goes before it."""
    path = SHIPPED / f"{name}.yaml"
    is_name = len(name.parts) == 1 and not name.exists() and path.is_file()
    return path if is_name else None


def read(path: Path) -> SpecFile:
    """Read and check a specification. Raises ConfigError, one line that names the file and the line."""
    text = read_small(path, "fleet")
    try:
        loaded = strict_yaml.load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except ValueError as error:
        raise ConfigError(f"fleet {path}: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"fleet {path}: the top level must be `key: value` lines")
    try:
        spec = FleetSpec.model_validate(loaded)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = tuple(first["loc"])
        raise _error(path, root, place, _problem(first["type"], first["msg"])) from error
    return SpecFile(path, spec, root)


def _problem(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "is not known"
    return message.removeprefix("Value error, ")


def _error(path: Path, root: yaml.Node | None, place: Place, problem: str) -> ConfigError:
    named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    where = f"fleet {path}, line {line_of(root, place)}" if root else f"fleet {path}"
    what = f"{named.lstrip('.')}: " if place else ""
    return ConfigError(f"{where}: {what}{problem}")


def line_of(root: yaml.Node, place: Place) -> int:
    """The line, from 1, of the value at a place, or of the last part on the way there that exists."""
    node, mark = root, root.start_mark
    for part in place:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                continue  # a step of the check itself, such as the name of a validator
            key, node = found[0]
            mark = key.start_mark
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                break
            node = node.value[part]
            mark = node.start_mark
    return int(mark.line) + 1
