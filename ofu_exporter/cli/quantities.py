"""Reads options that are ratios or rates of FLOPs, and makes a refusal one line of text."""

from __future__ import annotations

from collections.abc import Callable

import click

from ofu_exporter.errors import ConfigError
from ofu_exporter.values import quantities

Callback = Callable[[click.Context, click.Parameter, str | None], float | None]


def _reading(read: Callable[[str], float]) -> Callback:
    """A callback of an option. It raises ConfigError, which names the option."""

    def value_of(
        _context: click.Context, option: click.Parameter, text: str | None
    ) -> float | None:
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise ConfigError(f"{option.name}: {error}") from error

    return value_of


RATIO = _reading(quantities.ratio)
OVERHEAD = _reading(lambda text: quantities.ratio(text, quantities.OVERHEAD))
NUMBER = _reading(quantities.number)
STDERR = _reading(lambda text: quantities.ratio(text, 1.0))
TFLOPS = _reading(lambda text: quantities.tflops(quantities.number(text)))
"""Callbacks of options, by what they take."""
