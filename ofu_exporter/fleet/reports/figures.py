"""Writes figures as the tables and pages of reports show them."""

from __future__ import annotations

from ofu_exporter.support.percent import percent

NONE = "-"


def rounded(value: float | None, digits: int = 0) -> str:
    """A number without a sign where it is shown as 0."""
    return NONE if value is None else f"{round(value, digits) + 0.0:,.{digits}f}"


def hours(value: float | None) -> str:
    """GPU-hours, with a decimal if they are few."""
    return rounded(value, 0 if value is None or abs(value) >= 10 else 1)


def gpus(value: float | None) -> str:
    """A number of GPUs; a part of one with two decimals, as of MIG instances."""
    return rounded(
        value, 0 if value is None or abs(value - round(value)) < 0.005 or value > 10 else 2
    )


def gpu_count(value: float | None) -> str:
    """A number of GPUs with its noun."""
    count = gpus(value)
    return f"{count} GPU{'' if count == '1' else 's'}"


def counted(count: int, what: str) -> str:
    """A count with its noun, as in 1 hour and 2 hours."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def period(start: str, end: str) -> str:
    """Two ISO times in UTC as days, with the times where one is not midnight."""
    days = f"{start[:10]} to {end[:10]}"
    if (start[11:16], end[11:16]) == ("00:00", "00:00"):
        return days
    return f"{start[:10]} {start[11:16]} to {end[:10]} {end[11:16]} UTC"


def points(value: float | None) -> str:
    """A difference of ratios in percentage points."""
    return NONE if value is None else rounded(100 * value, 1)


def share(value: float | None) -> str:
    return percent(value, NONE)


def money(value: float | None, currency: str) -> str:
    return NONE if value is None else f"{rounded(value)} {currency}"


def few(value: float | None) -> str:
    """A number with three digits that count, as prices of tokens are small."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def tokens(value: float | None) -> str:
    """Tokens: millions and more with three digits."""
    if value is None:
        return NONE
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:,.0f}"
