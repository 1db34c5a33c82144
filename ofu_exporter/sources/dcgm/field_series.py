"""The samples of one field of one device, in order of time, and the runs of them that become windows: pure."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from ofu_exporter.sources.dcgm.library import NO_DATA, Sample
from ofu_exporter.sources.dcgm.sample_times import Measured
from ofu_exporter.values.reading import (
    LONGEST_WINDOW_SECONDS,
    MAX_RATIO,
    SHORTEST_WINDOW_SECONDS,
)

MICROS = 1e-6
"""Seconds."""
MOST_POINTS = 4096
"""Most samples that are kept of a device whose tensor counter has no values."""
ROUND_MICROS = 40_000
"""A host engine polls the fields of all GPUs one after the other, and stamps each at that moment. Stamps of one round
are at most this far apart (DcgmCacheManager.cpp, ActuallyUpdateAllFields)."""


class Point(NamedTuple):
    """One sample in its field's series."""

    micros: int
    value: float | None
    """None = blank."""
    apart: int = 0
    """Microseconds between the beginning of what the value is a mean of and the point before: an overlap or a gap."""


_MICROS_OF = attrgetter("micros")


class FieldSeries:
    """The samples of one field. A sample of a ratio is the mean over the time since the sample before it."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.last_code = 0
        """The code of the last sample: 0 = it has a value."""
        self.disordered = 0
        """How many samples were older than the one before."""
        self.brought_micros = 0
        """When the first value was measured; 0 = none yet."""
        self._stamp = 0

    @property
    def last_micros(self) -> int:
        """The time of the last sample; 0 without any."""
        return self.points[-1].micros if self.points else 0

    def is_new(self, sample: Sample) -> bool:
        """Whether a sample was not seen before. A repeated sample is not new, nor is `nothing yet`, which has no
        time."""
        if sample.micros <= 0 or sample.micros == self._stamp:
            return False
        if sample.micros < self._stamp:
            self.disordered += 1
            return False
        self._stamp = sample.micros
        return True

    def add(self, sample: Sample, measured: Measured) -> None:
        """Add a new sample at the time at which it was measured. One that was measured before is only added if it is
        blank, and then at its stamp."""
        value = sample.value if isinstance(sample.value, (int, float)) else None
        self.last_code = 0 if value is not None else sample.code or NO_DATA
        micros, since = measured
        if micros <= self.last_micros:
            if value is not None:
                return
            micros = sample.micros
        apart = 0 if since is None or not self.points else abs(since - self.last_micros)
        self.points.append(Point(micros, value, apart))
        if value is not None and not self.brought_micros:
            self.brought_micros = micros
        if len(self.points) > MOST_POINTS:
            del self.points[:-MOST_POINTS]

    def keep_from(self, micros: int) -> None:
        """Forget earlier samples, except the last one, because the time of the next sample begins there."""
        index = next((i for i, p in enumerate(self.points) if p.micros >= micros), None)
        del self.points[: len(self.points) - 1 if index is None else max(0, index - 1)]

    def at(self, micros: int) -> float | None:
        """The value that was measured at an instant; None when there is none."""
        return next((p.value for p in reversed(self.points) if p.micros == micros), None)

    def inside(self, start: int, end: int) -> list[Point]:
        """The samples from start to end."""
        return [p for p in self.points if start <= p.micros <= end]

    def within(self, start: int, end: int) -> list[float]:
        """The values of all samples that have some of this time."""
        return [
            after.value
            for before, after in itertools.pairwise(self.points)
            if before.micros < end and after.micros > start and after.value is not None
        ]

    def nearest(self, micros: int, within: float) -> float | None:
        """The value of the sample nearest to an instant; None when there is none."""
        near = min(self.points, key=lambda p: abs(p.micros - micros), default=None)
        return None if near is None or abs(near.micros - micros) > within else near.value

    def mean(self, start: int, end: int, hole_micros: float) -> float | None:
        """The mean over (start, end], each sample weighted by its time within; None if part of the time is not
        known."""
        weighted, covered = [], 0
        first = max(1, bisect_right(self.points, start, key=_MICROS_OF))
        for before, after in itertools.pairwise(self.points[first - 1 :]):
            if before.micros >= end:
                break
            micros = min(after.micros, end) - max(before.micros, start)
            if before.value is None or after.value is None:
                if micros > ROUND_MICROS:
                    return None
                continue
            if after.micros - before.micros > hole_micros:
                return None
            weighted.append(after.value * micros)
            covered += micros
        # The first and the last moment of a round may belong to another sample.
        if covered <= 0 or covered < end - start - 2 * ROUND_MICROS:
            return None
        return math.fsum(weighted) / covered


def runs_of(points: Sequence[Point], hole_micros: float) -> list[list[Point]]:
    """Runs of samples without a gap, none as long as two of the longest windows.

    The last sample of a run begins the next. An impossible value is a run by itself, so that only its own time is
    lost and no mean hides it.
    """
    runs: list[list[Point]] = []
    for before, after in itertools.pairwise(points):
        hole = after.micros - before.micros > hole_micros
        if before.value is None or after.value is None or hole:
            continue
        begins_at_the_end = bool(runs) and runs[-1][-1] is before
        if begins_at_the_end and _is_possible(before) and _is_possible(after):
            runs[-1].append(after)
        else:
            runs.append([before, after])
    return [part for run in runs for part in _shortened(run)]


def _shortened(run: list[Point]) -> list[list[Point]]:
    """The run, or about equal parts of it if it is as long as two of the longest windows.

    A window may be longer than the longest that can be asked for, because samples drift. A short rest would be shown
    as if it were a window.
    """
    count = max(1, int(_seconds(run) / LONGEST_WINDOW_SECONDS))
    bounds = [round(number * (len(run) - 1) / count) for number in range(count + 1)]
    return [run[first : last + 1] for first, last in itertools.pairwise(bounds)]


def _seconds(run: Sequence[Point]) -> float:
    return (run[-1].micros - run[0].micros) * MICROS


def is_short(run: Sequence[Point]) -> bool:
    """Whether a run is too short for a window; later samples may make it longer."""
    return _seconds(run) < 0.9 * SHORTEST_WINDOW_SECONDS


def _is_possible(point: Point) -> bool:
    return point.value is not None and 0.0 <= point.value <= MAX_RATIO


def mean(points: Sequence[Point]) -> float:
    """Mean of ratios, each weighted by the time since the point before it. The first point has no weight."""
    pairs = list(itertools.pairwise(points))
    weighted = ((b.value or 0.0) * (b.micros - a.micros) for a, b in pairs)
    return math.fsum(weighted) / (points[-1].micros - points[0].micros)
