"""Reads and writes durations as people write them: 5s, 500ms, 2m."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_SHORTEST, _LONGEST = 1e-3, 10 * 365 * 86400.0


def seconds(value: object) -> object:
    """Read a duration: 5, "5", "5s", "500ms", "2m", "1h"; anything else is left for pydantic to refuse."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|m|h|)\s*", str(value))
    if match is None or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a duration such as 5s, 500ms or 1m")
    number = float(match[1]) * _UNITS[match[2]]
    if number and not _SHORTEST <= number <= _LONGEST:
        raise ValueError(f"{str(value)[:40]!r} is not between 1ms and 10 years")
    return number


def duration(value: float) -> str:
    """Seconds in the form that `seconds` reads, as hours where these are whole."""
    return f"{value / 3600:g}h" if value >= 3600 and value % 3600 == 0 else f"{value:.9g}s"


def lasting(value: float) -> str:
    """How long something lasted, roughly: 40 s, 12 min, 1.5 h, 3.2 d."""
    if value < 90:
        return f"{max(0.0, value):.0f} s"
    if value < 5400:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h" if value < 172800 else f"{value / 86400:.1f} d"


Seconds = Annotated[float, BeforeValidator(seconds)]
