"""Types of options: a file, a folder, a length of time, ratios and rates of FLOPs. Adds options that commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ofu_exporter.errors import ConfigError
from ofu_exporter.values import quantities

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
Option = Callable[[Any], Any]


def option(
    name: str, help_: str, type_: Any = None, *, parameter: str | None = None, **settings: Any
) -> Option:
    """An option of a command, with what --help says of it; other settings are those of click.

    `parameter` is what the command calls its value, where that is not the option's own name.
    """
    names = [name] if parameter is None else [name, parameter]
    return click.option(*names, type=type_, help=help_, **settings)


def flag(name: str, help_: str) -> Option:
    """An option without a value."""
    return option(name, help_, is_flag=True)


def with_options(options: Sequence[Option]) -> Callable[[CommandT], CommandT]:
    """Adds options to a command, in their order."""

    def add(command: CommandT) -> CommandT:
        for each in reversed(options):
            command = each(command)
        return command

    return add


def _path(metavar: str) -> click.Path:
    kind = click.Path(path_type=Path)
    kind.name = metavar
    return kind


def _seconds(value: object) -> float:
    from ofu_exporter.support.durations import seconds  # Slurm's hooks need no pydantic

    return float(str(seconds(value)))


class _Quantity(click.ParamType[float]):
    """A number with a unit or a range; the refusal of another text names the option."""

    def __init__(self, name: str, read: Callable[[str], float]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: str, param: click.Parameter | None, _: click.Context | None) -> float:
        try:
            return self._read(value)
        except ValueError as error:
            name = max(param.opts, key=len) if param else self.name
            raise ConfigError(f"{name}: {error}") from error


MOST_WHOLE = 1 << 53
"""Above it a float doesn't hold every whole number, and far above it none."""


class _Whole(click.types.IntParamType):
    """A whole number, also with commas between thousands: 8,192."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and re.fullmatch(r"\d{1,3}(,\d{3})+", value):
            value = value.replace(",", "")
        number = super().convert(value, param, ctx)
        if abs(number) > MOST_WHOLE:
            self.fail(f"{str(number)[:20]}... is above {MOST_WHOLE}.", param, ctx)
        return number


class _WholeFrom(_Whole, click.IntRange):
    """The same from a least number on."""


FILE, FOLDER = _path("file"), _path("dir")
INTEGER, WHOLE_FROM_1 = _Whole(), _WholeFrom(min=1)
DURATION = _Quantity("time", _seconds)
"""Seconds, written as 5s, 500ms, 2m or 1h."""
RATIO = _Quantity("ratio", quantities.parsed_ratio)
ANY_MFU = _Quantity(
    "ratio", lambda text: quantities.parsed_ratio(text, most=quantities.MOST_EXPLAINED)
)
OVERHEAD = _Quantity("ratio", lambda text: quantities.parsed_ratio(text, quantities.OVERHEAD))
STDERR = _Quantity("ratio", lambda text: quantities.parsed_ratio(text, 1.0))
NUMBER = _Quantity("n", quantities.positive_number)
TFLOPS = _Quantity("tflops", lambda text: quantities.peak_tflops(quantities.positive_number(text)))
