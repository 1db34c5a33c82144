"""Reads series out of the answers of Prometheus' query API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import hypot
from typing import Any, NamedTuple

from ofu_exporter.values.instant import UNIX_LIMIT

EARLIEST, LATEST = -1e-9, UNIX_LIMIT
"""Times of a sample lie between. A clock that shows the later one gives milliseconds or no time."""
LARGEST = 1e18
"""Beyond all seconds, joules and FLOP/s of one series: a value as large is none, and sums of such values overflow."""


class Labels(dict[str, str]):
    """The labels of a series. One that is absent is empty, as Prometheus has it."""

    def __missing__(self, name: str) -> str:
        return ""


class Series(NamedTuple):
    """Samples in the order of time; at least one. Thousands of series have the same tuple of times."""

    labels: dict[str, str]
    times: tuple[float, ...]
    """Unix times."""
    values: Sequence[float]
    """All of them finite."""

    @property
    def points(self) -> list[tuple[float, float]]:
        """Times with values."""
        return [*zip(self.times, self.values, strict=True)]

    @classmethod
    def of(cls, labels: dict[str, str], points: Sequence[tuple[float, float]]) -> Series:
        return cls(labels, tuple(time_ for time_, _ in points), [value for _, value in points])


def read_series(row: Mapping[str, Any], start: float, end: float) -> Series:
    samples = row["values"] if "values" in row else [row["value"]]
    if not samples:
        return Series({}, (), ())
    at, texts = zip(*samples, strict=True)
    labels, values = _labels(row["metric"]), [*map(float, texts)]
    times, are_between = _times(at, start, end)
    if are_between and hypot(*values) < LARGEST:  # then each is, and none is NaN
        return Series(labels, times, values)
    points = zip(times, values, strict=True)
    return Series.of(labels, [p for p in points if start < p[0] <= end and abs(p[1]) < LARGEST])


@lru_cache(maxsize=64)
def _times(times: tuple[Any, ...], start: float, end: float) -> tuple[tuple[float, ...], bool]:
    """These times, and whether all lie between the two. Kept, because thousands of series have the same ones."""
    seconds = tuple(map(float, times))
    return seconds, all(start < time_ <= end for time_ in seconds)


def _labels(metric: Mapping[str, Any]) -> Labels:
    return Labels(
        metric
        if "".join(metric.values()).isascii()
        else {name: _whole_text(value) for name, value in metric.items()}
    )


def _whole_text(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can hold and no answer."""
    return text if text.isascii() else text.encode(errors="replace").decode()
