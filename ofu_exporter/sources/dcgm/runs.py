"""Divides the samples of the tensor counter into runs; each run becomes a window. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ofu_exporter.sources.dcgm.field_series import Point
from ofu_exporter.values.reading import (
    LONGEST_WINDOW_SECONDS,
    MAX_RATIO,
    SHORTEST_WINDOW_SECONDS,
)

MICROS = 1e-6
"""Seconds."""


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
        if runs and _extends(runs[-1], before, after):
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


def _extends(run: Sequence[Point], before: Point, after: Point) -> bool:
    """Whether the time from `before` to `after` begins where the run ends, and belongs to it."""
    return run[-1] is before and _is_possible(before) and _is_possible(after)


def mean(points: Sequence[Point]) -> float:
    """Mean of ratios, each weighted by the time since the point before it. The first point has no weight."""
    pairs = list(itertools.pairwise(points))
    weighted = ((b.value or 0.0) * (b.micros - a.micros) for a, b in pairs)
    return math.fsum(weighted) / (points[-1].micros - points[0].micros)
