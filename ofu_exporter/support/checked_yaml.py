"""Reads YAML of plain values, also into a checked model; names the line of what cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.small_files import read_small

ModelT = TypeVar("ModelT", bound=BaseModel)
YamlPath = Sequence[str | int]
"""Keys and numbers that lead to a value: ("jobs", 2, "gpus")."""


class YamlSection(BaseModel):
    """A part of a file: frozen, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class CheckedYaml(Generic[ModelT]):
    """The content of a file, and the line of each of its values."""

    path: Path
    what: str
    content: ModelT
    _root: yaml.Node | None

    def error(self, place: YamlPath, problem: str) -> ConfigError:
        """An error that names the line of a value, or of the nearest one around it."""
        return _error(f"{self.what} {self.path}", self._root, place, problem)


def read(path: Path, what: str, kind: type[ModelT]) -> CheckedYaml[ModelT]:
    """Read and check a file; errors call it `what`. Raises ConfigError, one line with the file and the line."""
    text = read_small(path, what)
    named = f"{what} {path}"
    try:
        loaded = load_yaml(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except ValueError as error:
        raise ConfigError(f"{named}: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"{named}: the top level must be `key: value` lines")
    try:
        content = kind.model_validate(loaded)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = tuple(first["loc"])
        is_unknown = first["type"] == "extra_forbidden"
        problem = "is not known" if is_unknown else first["msg"].removeprefix("Value error, ")
        raise _error(named, root, place, problem) from error
    return CheckedYaml(path, what, content, root)


def _error(named: str, root: yaml.Node | None, place: YamlPath, problem: str) -> ConfigError:
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    where = f"{named}, line {line_of(root, place)}" if root else named
    what = f"{key.lstrip('.')}: " if place else ""
    return ConfigError(f"{where}: {what}{problem}")


def line_of(root: yaml.Node, place: YamlPath) -> int:
    """The line, from 1, of the value at a place, or of the last part on the way there that exists."""
    node, mark = root, root.start_mark
    for part in place:
        if isinstance(node, yaml.MappingNode):
            pairs = [(key, value) for key, value in node.value if key.value == str(part)]
            if not pairs:
                continue  # a step of the check itself, such as the name of a validator
            key, node = pairs[0]
            mark = key.start_mark
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                break
            node = node.value[part]
            mark = node.start_mark
    return int(mark.line) + 1


class _OnceLoader(yaml.SafeLoader):
    """Refuses a duplicate key, of which YAML itself would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                problem = "a key is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """The document. Raises ValueError, whose text names the line but quotes nothing, because the content may be
    secret."""
    try:
        return yaml.load(text, Loader=_OnceLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"not YAML{place}: {_yaml_problem(error)}") from None
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"a value that YAML cannot make ({type(error).__name__})") from None


def _yaml_problem(error: yaml.YAMLError) -> str:
    """What is wrong, up to the first quotation."""
    problem = getattr(error, "problem", None) or "it has a character that YAML does not allow"
    return str(problem).partition("'")[0].strip()
