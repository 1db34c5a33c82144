"""The samples of one field of one device, in order of time: pure, no clock, no call."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from ofu_exporter.sources.dcgm.library import NO_DATA, Sample

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
    code: int


class FieldSeries:
    """The samples of one field. A sample of a ratio is the mean over the time since the sample before it."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.disordered = 0
        """How many samples were older than the one before."""
        self.brought_micros = 0
        """When the first value came; 0 = none yet."""

    @property
    def last_micros(self) -> int:
        """The time of the last sample; 0 without any."""
        return self.points[-1].micros if self.points else 0

    def add(self, sample: Sample) -> bool:
        """Add a sample; returns whether it is new. A repeated sample is not, nor is `nothing yet`, which has no
        time."""
        if sample.micros <= 0 or sample.micros == self.last_micros:
            return False
        if sample.micros < self.last_micros:
            self.disordered += 1
            return False
        value = sample.value if isinstance(sample.value, (int, float)) else None
        code = sample.code if value is None else 0
        self.points.append(Point(sample.micros, value, code or (NO_DATA if value is None else 0)))
        if value is not None and not self.brought_micros:
            self.brought_micros = sample.micros
        del self.points[:-MOST_POINTS]
        return True

    def keep_from(self, micros: int) -> None:
        """Forget earlier samples, except the last one, because the time of the next sample begins there."""
        index = next((i for i, p in enumerate(self.points) if p.micros >= micros), None)
        del self.points[: len(self.points) - 1 if index is None else max(0, index - 1)]

    def inside(self, start: int, end: int) -> list[Point]:
        """The samples from start to end."""
        return [p for p in self.points if start <= p.micros <= end]

    def nearest(self, micros: int, within: float = ROUND_MICROS) -> float | None:
        """The value of the sample nearest to an instant; None when there is none."""
        near = min(self.points, key=lambda p: abs(p.micros - micros), default=None)
        return None if near is None or abs(near.micros - micros) > within else near.value

    def mean(self, start: int, end: int, hole_micros: float) -> float | None:
        """The mean over (start, end], each sample weighted by its time within; None if part of the time is not
        known."""
        weighted, seen = [], 0
        for before, after in self._pairs():
            if after.micros <= start or before.micros >= end:
                continue
            micros = min(after.micros, end) - max(before.micros, start)
            if before.value is None or after.value is None:
                if micros > ROUND_MICROS:
                    return None
                continue
            if after.micros - before.micros > hole_micros:
                return None
            weighted.append(after.value * micros)
            seen += micros
        # The first and the last moment of a round may belong to another sample.
        if seen <= 0 or seen < end - start - 2 * ROUND_MICROS:
            return None
        return math.fsum(weighted) / seen

    def lag(self, tensor: FieldSeries) -> int:
        """Microseconds by which this series' stamps come after those of the tensor counter, measured with it.

        All profiling fields of a device share its samples. The field with the shortest interval, here the tensor
        counter, triggers them. The value of another field was measured when the tensor counter was last sampled
        (DcgmGpmManager.cpp, MaybeFetchNewSample). 0 if the two are not in step, for example because another client
        samples the field faster.
        """
        lags = [_since(tensor.points, point.micros) for point in self.points[-2:]]
        if len(lags) < 2 or lags[0] is None or lags[1] is None:
            return 0
        steady = abs(lags[1] - lags[0]) <= ROUND_MICROS
        faster = self.points[-1].micros - lags[1] == self.points[-2].micros - lags[0]
        return lags[1] if steady and not faster else 0

    def ends(self, tensor: FieldSeries) -> list[int]:
        """The instants at which the samples were measured: those of the tensor counter's samples."""
        lags = ((p.micros, _since(tensor.points, p.micros)) for p in self.points)
        return [micros - lag for micros, lag in lags if lag is not None]

    def _pairs(self) -> Iterator[tuple[Point, Point]]:
        return itertools.pairwise(self.points)


def _since(points: list[Point], micros: int) -> int | None:
    """Microseconds since the last of the points; None where all are later."""
    return next((micros - p.micros for p in reversed(points) if p.micros <= micros), None)
