"""Holds series as columns: a name, labels, and a value for each minute or few."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

ABSENT = math.nan
"""Stands for no sample."""


def is_there(value: float) -> bool:
    """Whether there is a sample."""
    return value == value  # noqa: PLR0124 - it is not ABSENT


@dataclass(frozen=True)
class RecordedSeries:
    """One series of a page, or of a recording rule."""

    name: str
    labels: Mapping[str, str]
    first: int
    """Minute of the fleet of the first value."""
    values: array[float]
    step: int = 1
    """Minutes between two values."""

    @property
    def end(self) -> int:
        """The minute after the last value, where the next one would be."""
        return self.first + self.step * len(self.values)

    def at(self, minute: int) -> float:
        """The sample of a minute; ABSENT where there is none."""
        place, rest = divmod(minute - self.first, self.step)
        return self.values[place] if not rest and 0 <= place < len(self.values) else ABSENT

    def samples(self, begin: int, end: int) -> Iterator[tuple[int, float]]:
        """The samples of [begin, end), each with its minute."""
        skipped = max(0, -(-(begin - self.first) // self.step))
        minutes = range(self.first + self.step * skipped, min(end, self.end), self.step)
        pairs = zip(minutes, self.values[skipped:], strict=False)
        return (pair for pair in pairs if is_there(pair[1]))

    def text(self) -> str:
        """The name with the labels; a label without a value is none."""
        labels = ",".join(f'{key}="{value}"' for key, value in self.labels.items() if value)
        return f"{self.name}{{{labels}}}" if labels else self.name


def together(
    members: Sequence[RecordedSeries], combine: Callable[[float, float], float]
) -> tuple[int, array[float]]:
    """The first minute and the values of several series of one step in one; none where no series has any."""
    first, step = min(one.first for one in members), members[0].step
    if len(members) == 1:
        return first, members[0].values
    combined = array("d", [ABSENT]) * ((max(one.end for one in members) - first) // step)
    for one in members:
        for place, value in enumerate(one.values, (one.first - first) // step):
            if value == value:  # noqa: PLR0124 - is_there, of every sample of a history
                before = combined[place]
                combined[place] = value if before != before else combine(before, value)  # noqa: PLR0124
    return first, combined
