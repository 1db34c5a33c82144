"""Types of options: a file, a folder, a length of time."""

from __future__ import annotations

from pathlib import Path

import click

from ofu_exporter.errors import ConfigError


def _path(metavar: str) -> click.Path:
    kind = click.Path(path_type=Path)
    kind.name = metavar
    return kind


class _Duration(click.ParamType[float]):
    """Seconds, written as 5s, 500ms, 2m or 1h."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, _: click.Context | None) -> float:
        from ofu_exporter.support.durations import seconds  # Slurm's hooks need no pydantic

        try:
            return float(str(seconds(value)))
        except ValueError as error:
            name = param.opts[0] if param else "duration"
            raise ConfigError(f"{name}: {error}") from error


FILE, FOLDER, DURATION = _path("file"), _path("dir"), _Duration()
