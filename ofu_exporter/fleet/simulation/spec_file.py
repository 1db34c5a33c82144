"""Reads a fleet's specification from YAML, and names the line of a value that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.spec import FleetSpec
from ofu_exporter.support import checked_yaml
from ofu_exporter.support.checked_yaml import CheckedYaml, Place

SHIPPED = Path(__file__).parents[1] / "specs"
"""The specifications that come with the program."""


@dataclass(frozen=True)
class SpecFile:
    """A specification, and the line of each of its values."""

    _file: CheckedYaml[FleetSpec]

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def spec(self) -> FleetSpec:
        return self._file.content

    def error(self, place: Place, problem: str) -> ConfigError:
        """An error that names the line of a value, or of the nearest one around it."""
        return self._file.error(place, problem)


def shipped(name: Path) -> Path | None:
    """The specification with this name that comes with the program, unless there is a file of that name."""
    path = SHIPPED / f"{name}.yaml"
    is_name = len(name.parts) == 1 and not name.exists() and path.is_file()
    return path if is_name else None


def read(path: Path) -> SpecFile:
    """Read and check a specification. Raises ConfigError, one line that names the file and the line."""
    return SpecFile(checked_yaml.read(path, "fleet", FleetSpec))
