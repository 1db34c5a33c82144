"""Holds recorded series as they are written: a name, labels, and a value for each minute or few."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ABSENT = math.nan
"""Stands for no sample."""


@dataclass(frozen=True)
class RecordedSeries:
    """One series of a recording rule."""

    name: str
    labels: Mapping[str, str]
    first: int
    """Minute of the fleet of the first value."""
    values: array[float]
    step: int = 1
    """Minutes between two values."""

    def samples(self, begin: int, end: int) -> Iterator[tuple[int, float]]:
        """The samples of [begin, end), each with its minute."""
        from_place = max(0, -(-(begin - self.first) // self.step))
        until = min(len(self.values), -(-(end - self.first) // self.step))
        for place in range(from_place, until):
            value = self.values[place]
            if value == value:  # noqa: PLR0124 - it is not ABSENT
                yield self.first + place * self.step, value

    def text(self) -> str:
        """The name with the labels; a label without a value is none."""
        labels = ",".join(f'{key}="{value}"' for key, value in self.labels.items() if value)
        return f"{self.name}{{{labels}}}" if labels else self.name


class Totals:
    """Sums of several series, minute by minute; a minute without any value has no sum."""

    def __init__(self, minutes: int) -> None:
        self.values = array("d", [ABSENT]) * minutes

    def add(self, series: RecordedSeries) -> None:
        """Add a series with one value per minute."""
        values, sums = series.values, self.values
        for place in range(max(0, -series.first), min(len(values), len(sums) - series.first)):
            value = values[place]
            if value == value:  # noqa: PLR0124 - it is not ABSENT
                now = sums[series.first + place]
                sums[series.first + place] = value if now != now else now + value  # noqa: PLR0124


def divided(over: array[float], under: array[float]) -> array[float]:
    """The quotients; none where a value is missing or the divisor is 0."""
    return array(
        "d",
        (a / b if b > 0 and a == a else ABSENT for a, b in zip(over, under, strict=True)),  # noqa: PLR0124
    )


def minus(one: array[float], other: array[float]) -> array[float]:
    """The differences; none where one of the two is missing."""
    return array("d", (a - b for a, b in zip(one, other, strict=True)))
