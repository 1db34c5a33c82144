"""Makes readings from the samples that a host engine took of one device: pure, no clock, no call.

A sample of a ratio is the mean over the time since the sample before it, so each is weighted with that
time, and a window reaches from one sample to another. Time under a blank or a hole in the samples is
not measured: a window ends before it, and the next begins after it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.sources.dcgm.library import NO_DATA, Sample
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import (
    LONGEST_WINDOW_SECONDS,
    MAX_RATIO,
    SHORTEST_WINDOW_SECONDS,
    ClockSample,
    CycleTotals,
    Evidence,
    Reading,
)

# dcgm_fields.h
SM_CLOCK_MHZ = 100
TENSOR = 1004
PIPES = {"imma": 1013, "hmma": 1014, "dfma": 1015}
OTHER_PIPES = (1006, 1007, 1008, 1016)  # FP64, FP32, FP16, integer
CYCLES_ELAPSED, CYCLES_TENSOR = 1084, 1086
POWER_WATTS, POWER_LIMIT_WATTS = 155, 164
GPU_PERCENT = 203
"""How busy the engine is, from the driver and not from profiling: this counter goes on when profiling stands still."""

EDGE_MICROS = 40_000
"""A clock sample belongs to a window when it lies at most this far outside."""
HOLE_INTERVALS = 2.5
"""A sample that comes later than this many intervals after the last one leaves a hole."""
ROUND_INTERVALS = 0.45
"""Samples of different fields belong to one round of the host engine when they are at most this far apart."""
MOST_POINTS = 4096
"""Most samples that are kept of a device whose tensor counter brings nothing."""

MICROS = 1e-6


class Anchor(NamedTuple):
    """One instant on both clocks: the samples' and the readings'."""

    micros: int
    seconds: float

    def seconds_at(self, micros: int) -> float:
        return self.seconds + (micros - self.micros) * MICROS


class Point(NamedTuple):
    """One sample in its field's series."""

    micros: int
    value: float | None
    """None = blank."""
    code: int


class FieldSeries:
    """The samples of one field of one entity, in order of time."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.disordered = 0
        """How many samples were older than the one before."""

    def add(self, sample: Sample) -> bool:
        """Add a sample; whether it is new. A repetition is not, nor is `nothing yet`, which has no time."""
        last = self.points[-1].micros if self.points else 0
        if sample.micros <= 0 or sample.micros == last:
            return False
        if sample.micros < last:
            self.disordered += 1
            return False
        value = sample.value if isinstance(sample.value, (int, float)) else None
        code = sample.code if value is None else 0
        self.points.append(Point(sample.micros, value, code or (NO_DATA if value is None else 0)))
        del self.points[:-MOST_POINTS]
        return True

    def keep_from(self, micros: int) -> None:
        """Forget the samples from before, except the last, at which the later time begins."""
        index = next((i for i, p in enumerate(self.points) if p.micros >= micros), None)
        del self.points[: len(self.points) - 1 if index is None else max(0, index - 1)]

    def inside(self, start: int, end: int) -> list[Point]:
        """The samples from start to end, and a moment around both."""
        return [p for p in self.points if start - EDGE_MICROS <= p.micros <= end + EDGE_MICROS]

    def nearest(self, micros: int, within: float) -> int | None:
        """The index of the sample in the same round as an instant; None when there is none."""
        index = min(
            range(len(self.points)), key=lambda i: abs(self.points[i].micros - micros), default=None
        )
        if index is None or abs(self.points[index].micros - micros) > within:
            return None
        return index


class DeviceSamples:
    """All series of one device, and the readings made of them."""

    def __init__(self, gpu: Gpu, interval: float) -> None:
        self.gpu = gpu
        self._interval = interval
        self._hole_micros = HOLE_INTERVALS * interval / MICROS
        # A host engine polls field after field, those of all GPUs mixed, and stamps each when it does so. Samples
        # closer than half an interval are of one round (DcgmCacheManager.cpp, ActuallyUpdateAllFields).
        self._round_micros = ROUND_INTERVALS * interval / MICROS
        self._series: dict[int, FieldSeries] = {}
        self._end: tuple[int, float] | None = None
        """Where the last reading ended, on both clocks."""

    def add(self, sample: Sample) -> bool:
        """Add a sample; whether it is new."""
        return self._field_series(sample.field).add(sample)

    @property
    def last_code(self) -> int:
        """The code of the latest sample of the tensor counter: 0 = measured."""
        points = self._field_series(TENSOR).points
        return points[-1].code if points else 0

    def take_disordered(self) -> int:
        """How many samples came out of order since the last call."""
        count = sum(series.disordered for series in self._series.values())
        for series in self._series.values():
            series.disordered = 0
        return count

    def forget(self) -> None:
        """Begin anew: no reading reaches over this instant."""
        self._series.clear()
        self._end = None

    def readings(self, anchor: Anchor) -> list[Reading]:
        """The readings since the last call: windows without a gap inside."""
        runs = self._runs()
        made = [self._reading(run, anchor) for run in runs if not _is_short(run)]
        self._forget(runs)
        return [reading for reading in made if reading is not None]

    def _field_series(self, field: int) -> FieldSeries:
        return self._series.setdefault(field, FieldSeries())

    def _runs(self) -> list[list[Point]]:
        """Runs of tensor samples without a hole between them, none longer than the longest window.

        The last sample of a run begins the next. An impossible value is a run of its own, so that it costs its
        own time only and no mean hides it.
        """
        runs: list[list[Point]] = []
        for before, after in itertools.pairwise(self._field_series(TENSOR).points):
            micros = after.micros - before.micros
            if before.value is None or after.value is None or micros > self._hole_micros:
                continue
            if runs and _extends(runs[-1], before, after):
                runs[-1].append(after)
            else:
                runs.append([before, after])
        return runs

    def _forget(self, runs: Sequence[Sequence[Point]]) -> None:
        """Forget all samples but those that the next window needs, from its beginning on."""
        tensor = self._field_series(TENSOR)
        if not tensor.points:
            return
        kept = tensor.points[-1].micros
        if runs and runs[-1][-1].micros == kept and _is_short(runs[-1]):
            kept = runs[-1][0].micros
        tensor.points = [point for point in tensor.points if point.micros >= kept]
        for field, series in self._series.items():
            if field != TENSOR:
                series.keep_from(kept - round(self._round_micros) - EDGE_MICROS)

    def _reading(self, run: Sequence[Point], anchor: Anchor) -> Reading | None:
        first, last = run[0].micros, run[-1].micros
        start = anchor.seconds_at(first)
        if self._end is not None and self._end[0] == first:
            start = self._end[1]  # the clocks may have drifted; windows still tile
        end = anchor.seconds_at(last)
        if end <= start:
            return None
        self._end = (last, end)
        return Reading(
            gpu=self.gpu,
            start=start,
            end=end,
            tensor_active=_mean(run),
            pipes=self._pipes(first, last),
            clocks=self._clocks(first, last, anchor),
            cycles=self._cycles(last),
            evidence=None if self.gpu.instance else self._evidence(first, last),
            pace=self._interval,
        )

    def _pipes(self, first: int, last: int) -> Mapping[str, float]:
        """The activity of every pipe that was sampled over the whole window."""
        means = ((pipe, self._mean_of(field, first, last)) for pipe, field in PIPES.items())
        return {pipe: mean for pipe, mean in means if mean is not None}

    def _mean_of(self, field: int, first: int, last: int) -> float | None:
        """The mean of a field; None where it was not sampled over the whole window."""
        series = self._field_series(field)
        begin = series.nearest(first, self._round_micros)
        end = series.nearest(last, self._round_micros)
        points = [] if begin is None or end is None else series.points[begin : end + 1]
        return _mean(points) if len(points) > 1 and not self._has_hole(points) else None

    def _evidence(self, first: int, last: int) -> Evidence:
        """Other counters that show whether the GPU worked."""
        others = [self._mean_of(field, first, last) for field in OTHER_PIPES]
        known = [activity for activity in others if activity is not None]
        percent = self._mean_of(GPU_PERCENT, first, last)
        power, limit = (self._at(field, last) for field in (POWER_WATTS, POWER_LIMIT_WATTS))
        return Evidence(
            graphics_active=None if percent is None else percent / 100,
            other_active=max(known) if len(known) == len(OTHER_PIPES) else None,
            power=power / limit if power is not None and limit else None,
        )

    def _has_hole(self, points: Sequence[Point]) -> bool:
        return any(point.value is None for point in points) or any(
            after.micros - before.micros > self._hole_micros
            for before, after in itertools.pairwise(points)
        )

    def _clocks(self, first: int, last: int, anchor: Anchor) -> tuple[ClockSample, ...]:
        points = self._field_series(SM_CLOCK_MHZ).inside(first, last)
        return tuple(
            ClockSample(anchor.seconds_at(p.micros), p.value * 1e6)
            for p in points
            if p.value is not None
        )

    def _cycles(self, last: int) -> CycleTotals | None:
        elapsed, tensor = (self._at(field, last) for field in (CYCLES_ELAPSED, CYCLES_TENSOR))
        if elapsed is None or tensor is None:
            return None
        return CycleTotals(float(elapsed), float(tensor))

    def _at(self, field: int, micros: int) -> float | None:
        series = self._field_series(field)
        index = series.nearest(micros, self._round_micros)
        return None if index is None else series.points[index].value


def _seconds(run: Sequence[Point]) -> float:
    return (run[-1].micros - run[0].micros) * MICROS


def _is_short(run: Sequence[Point]) -> bool:
    """Whether a run is too short for a window; later samples may make it longer."""
    return _seconds(run) < 0.9 * SHORTEST_WINDOW_SECONDS


def _is_possible(point: Point) -> bool:
    return point.value is not None and 0.0 <= point.value <= MAX_RATIO


def _extends(run: Sequence[Point], before: Point, after: Point) -> bool:
    """Whether the time from `before` to `after` begins where the run ends, and belongs to it."""
    return (
        run[-1] is before
        and _is_possible(before)
        and _is_possible(after)
        and (after.micros - run[0].micros) * MICROS <= LONGEST_WINDOW_SECONDS
    )


def _mean(points: Sequence[Point]) -> float:
    """Mean of ratios, each weighted with the time since the one before; the first point only begins that time."""
    pairs = list(itertools.pairwise(points))
    weighted = ((b.value or 0.0) * (b.micros - a.micros) for a, b in pairs)
    return math.fsum(weighted) / (points[-1].micros - points[0].micros)
