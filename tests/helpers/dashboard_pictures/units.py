"""Writes a value in a unit as Grafana does (its @grafana/data, valueFormats), for the units that the dashboards use."""

from __future__ import annotations

import math

THOUSANDS = {
    "short": ("", " K", " Mil", " Bil"),
    "hertz": (" Hz", " kHz", " MHz", " GHz"),
    "cps": (" c/s", "K c/s", "M c/s"),
    "reqps": (" req/s", "K req/s", "M req/s"),
}
SECONDS = (
    (60.0, 1.0, " s"),
    (3600.0, 60.0, " mins"),
    (86400.0, 3600.0, " hours"),
    (math.inf, 86400.0, " days"),
)
SMALL_SECONDS = ((1e-3, 1e-6, " µs"), (1.0, 1e-3, " ms"))


def shown(value: float, unit: str) -> str:
    """The value with its unit; raises KeyError for a unit that no dashboard had."""
    if unit == "percentunit":
        return f"{fixed(100 * value)}%"
    if unit.startswith("suffix:"):
        return f"{fixed(value)} {unit.removeprefix('suffix:')}"
    if unit == "s":
        return in_seconds(value)
    names = THOUSANDS[unit]
    power = 0
    while abs(value) >= 1000 and power < len(names) - 1:
        value, power = value / 1000, power + 1
    return f"{fixed(value)}{names[power]}"


def in_seconds(value: float) -> str:
    small = SMALL_SECONDS if value else ()
    for below, one, name in (*small, *SECONDS):
        if abs(value) < below:
            return f"{fixed(value / one)}{name}"
    raise AssertionError(value)


def fixed(value: float) -> str:
    """Three digits, as Grafana does where a panel sets no decimals; whole numbers as they are."""
    if value == int(value):
        return str(int(value))
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
