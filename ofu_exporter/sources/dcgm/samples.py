"""Makes readings from the samples that a host engine took of one device: pure, no clock, no call.

A sample of a ratio is the mean over the time since the sample before it. A window reaches from one sample of the
tensor counter to another, has a part for each sample in between, and ends at a time up to which all other fields have
samples. Time with a blank or without samples is not measured: a window ends before it, and the next begins after it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.sources.dcgm.field_series import ROUND_MICROS, FieldSeries, Point
from ofu_exporter.sources.dcgm.fields import (
    ACTIVITY,
    CLOCK_SECONDS,
    CYCLES_DMMA,
    CYCLES_ELAPSED,
    CYCLES_TENSOR,
    ENDING,
    ENERGY_MILLIJOULES,
    GPU_PERCENT,
    OF_PROFILING,
    OTHER_PIPES,
    OVER_TIME,
    PIPES,
    POWER_LIMIT_WATTS,
    POWER_WATTS,
    SM,
    SM_CLOCK_MHZ,
    TENSOR,
)
from ofu_exporter.sources.dcgm.library import Sample
from ofu_exporter.sources.dcgm.runs import MICROS, is_short, mean, runs_of
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import (
    Activity,
    ActivitySample,
    ClockSample,
    CycleTotals,
    Evidence,
    Reading,
)

HOLE_INTERVALS = 2.5
"""If a sample comes later than this number of intervals after the last one, the time between is a gap."""
DMMA_TOLERANCE = 0.02
"""The FP64 cycles are used if the tensor cycles of the same sample match the measured activity to within this
much."""


class Anchor(NamedTuple):
    """One instant on two clocks: that of the samples and that of the readings."""

    micros: int
    seconds: float

    def seconds_at(self, micros: int) -> float:
        return self.seconds + (micros - self.micros) * MICROS


class DeviceSamples:
    """All series of one device, and the readings made of them."""

    def __init__(self, gpu: Gpu, interval: float) -> None:
        self.gpu = gpu
        self.missing: frozenset[int] = frozenset()
        """Fields that had values before, but did not cover the last window."""
        self._interval = interval
        self._hole_micros = HOLE_INTERVALS * interval / MICROS
        self._series: dict[int, FieldSeries] = {}
        self._lags: dict[int, int] = {}
        self._dmma_series = FieldSeries()
        self._from_micros = 0
        """No window begins before this time."""
        self._joules: tuple[int, float] | None = None
        """When the last window ended, and what the energy counter showed then."""
        self._end: tuple[int, float] | None = None
        """Where the last reading ended, on both clocks."""

    def add(self, sample: Sample) -> bool:
        """Add a sample; returns whether it is new."""
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
        """Start again: no reading includes this instant."""
        self._series.clear()
        self._from_micros = 0
        self._end = self._joules = None

    def readings(self, anchor: Anchor) -> list[Reading]:
        """The readings since the last call: windows without a gap inside."""
        self._lags = self._find_lags()
        until = self._covered_until()
        self._dmma_series = self._dmma()
        begin, points = self._begin(), self._field_series(TENSOR).points
        spanned = [point for point in points if begin <= point.micros <= until]
        runs = runs_of(spanned, self._hole_micros)
        made = [self._reading(run, anchor) for run in runs if not is_short(run)]
        self._forget(runs, until)
        return [reading for reading in made if reading is not None]

    def _field_series(self, field: int) -> FieldSeries:
        return self._series.setdefault(field, FieldSeries())

    def _covered_until(self) -> int:
        """The time up to which every field has samples, not counting fields that no longer have values.

        For the fields that OFU is made of, this is the end of a sample: a total belongs to one instant, and to cut a
        mean in two would be a guess.
        """
        tensor = self._field_series(TENSOR)
        alive = {
            field: series
            for field, series in self._series.items()
            if field in OVER_TIME or field in OF_PROFILING
            if series.brought_micros
            and tensor.last_micros - series.last_micros <= self._hole_micros
        }
        covered = (s.last_micros - self._lag(field) + ROUND_MICROS for field, s in alive.items())
        until = min(covered, default=tensor.last_micros)
        ends = next((alive[field].ends(tensor) for field in ENDING if field in alive), [until])
        return max((micros for micros in ends if micros <= until), default=until)

    def _begin(self) -> int:
        """Where the next window begins. The first begins when every field that has values has had one."""
        if self._end is not None:
            return self._from_micros
        first = (
            series.brought_micros - self._lag(field) - ROUND_MICROS
            for field, series in self._series.items()
            if field in OVER_TIME or field in OF_PROFILING
        )
        return max(first, default=self._from_micros)

    def _lag(self, field: int) -> int:
        """Microseconds by which a field's time stamps come after those of the tensor counter, measured with it."""
        return self._lags.get(field, 0)

    def _find_lags(self) -> dict[int, int]:
        tensor = self._field_series(TENSOR)
        return {
            field: series.lag(tensor)
            for field, series in self._series.items()
            if field in OF_PROFILING
        }

    def _forget(self, runs: Sequence[Sequence[Point]], until: int) -> None:
        """Forget all samples before the beginning of the next window."""
        tensor = self._field_series(TENSOR)
        if not tensor.points:
            return
        kept = max((p.micros for p in tensor.points if p.micros <= until), default=None)
        if kept is None:
            return
        if runs and runs[-1][-1].micros == kept and is_short(runs[-1]):
            kept = runs[-1][0].micros
        self._from_micros = max(kept, self._from_micros)
        for series in self._series.values():
            series.keep_from(self._from_micros - round(2 * self._interval / MICROS))

    def _reading(self, run: Sequence[Point], anchor: Anchor) -> Reading | None:
        first, last = run[0].micros, run[-1].micros
        start = anchor.seconds_at(first)
        if self._end is not None and self._end[0] == first:
            start = self._end[1]  # the clocks may have drifted; windows still leave no gap
        end = anchor.seconds_at(last)
        if end <= start:
            return None
        self._end = (last, end)
        parts = self._parts(run, start, end)
        reading = Reading(
            gpu=self.gpu,
            start=start,
            end=end,
            tensor_active=mean(run),
            pipes=_mean_pipes(parts),
            parts=parts,
            clocks=self._clocks(first, last, anchor),
            cycles=self._cycles(last),
            evidence=None if self.gpu.instance else self._evidence(first, last),
            activity=self._activity(first, last),
            pace=self._interval,
        )
        self.missing = frozenset(self._missing(first, last))
        return reading

    def _parts(self, run: Sequence[Point], start: float, end: float) -> tuple[ActivitySample, ...]:
        first, last = run[0].micros, run[-1].micros
        scale = (end - start) / (last - first)
        times = [start + (point.micros - first) * scale for point in run]
        return tuple(
            ActivitySample(
                *times,
                after.value or 0.0,
                self._pipes(before, after),
                self._mean_of(SM, before.micros, after.micros),
            )
            for times, (before, after) in zip(
                itertools.pairwise(times), itertools.pairwise(run), strict=True
            )
        )

    def _pipes(self, before: Point, after: Point) -> Mapping[str, float]:
        """The activity of every pipe whose samples cover one sample of the tensor counter."""
        span = (before.micros, after.micros)
        means = {pipe: self._mean_of(field, *span) for pipe, field in PIPES.items()}
        means["dmma"] = self._dmma_series.mean(*span, self._hole_micros)
        return {pipe: mean for pipe, mean in means.items() if mean is not None}

    def _dmma(self) -> FieldSeries:
        """Activity of the FP64 tensor pipe by its cycles, at the time stamps of the tensor counter.

        Blank where the cycles are not known, or where the tensor cycles of the same sample do not match the measured
        activity.
        """
        made = FieldSeries()
        lag = self._lag(CYCLES_ELAPSED)
        for before, after in itertools.pairwise(self._field_series(CYCLES_ELAPSED).points):
            share = self._dmma_share(before, after, lag)
            if share is not None and not made.points:
                made.points.append(Point(before.micros - lag, 0.0, 0))
            if made.points:
                made.points.append(Point(after.micros - lag, share, 0))
        return made

    def _dmma_share(self, before: Point, after: Point, lag: int) -> float | None:
        times = (before.micros, after.micros)
        tensor, dmma = (self._difference(field, *times) for field in (CYCLES_TENSOR, CYCLES_DMMA))
        measured = self._field_series(TENSOR).mean(
            before.micros - lag, after.micros - lag, self._hole_micros
        )
        if before.value is None or after.value is None or after.value <= before.value:
            return None
        if tensor is None or dmma is None or measured is None:
            return None
        elapsed = after.value - before.value
        return dmma / elapsed if abs(tensor / elapsed - measured) <= DMMA_TOLERANCE else None

    def _difference(self, field: int, first: int, last: int) -> float | None:
        """What a total grew by."""
        before, after = (self._field_series(field).nearest(micros) for micros in (first, last))
        return None if before is None or after is None else after - before

    def _total(self, field: int, micros: int) -> float | None:
        return self._field_series(field).nearest(micros + self._lag(field))

    def _mean_of(self, field: int, first: int, last: int) -> float | None:
        """The mean of a field; None if its samples do not cover the whole time."""
        lag = self._lag(field)
        return self._field_series(field).mean(first + lag, last + lag, self._hole_micros)

    def _missing(self, first: int, last: int) -> list[int]:
        return [
            field
            for field, series in self._series.items()
            if field in OVER_TIME and 0 < series.brought_micros <= first
            if self._mean_of(field, first, last) is None
        ]

    def _evidence(self, first: int, last: int) -> Evidence:
        """Other counters that show whether the GPU worked."""
        others = [self._mean_of(field, first, last) for field in OTHER_PIPES]
        known = [activity for activity in others if activity is not None]
        percent = self._mean_of(GPU_PERCENT, first, last)
        power, limit = (
            self._field_series(field).nearest(last, self._interval / MICROS)
            for field in (POWER_WATTS, POWER_LIMIT_WATTS)
        )
        return Evidence(
            other_active=max(known) if len(known) == len(OTHER_PIPES) else None,
            power=power / limit if power is not None and limit else None,
            utilization_ratio=None if percent is None else percent / 100,
        )

    def _activity(self, first: int, last: int) -> Activity:
        """What else the GPU did in the window; a field whose samples do not cover it is left out."""
        means = {name: self._mean_of(field, first, last) for name, field in ACTIVITY.items()}
        return Activity(**means, energy_joules=self._energy(first, last))

    def _energy(self, first: int, last: int) -> float | None:
        """The energy since the window before, so that no joule is counted twice or lost.

        None without the counter, and of an instance, whose card's it is.
        """
        if self.gpu.instance:
            return None
        before = self._joules if self._joules and self._joules[0] == first else None
        start = self._joules_at(first) if before is None else before[1]
        end = self._joules_at(last)
        self._joules = None if end is None else (last, end)
        return None if start is None or end is None else end - start

    def _joules_at(self, micros: int) -> float | None:
        value = self._field_series(ENERGY_MILLIJOULES).nearest(micros, self._interval / MICROS)
        return None if value is None else value / 1000

    def _clocks(self, first: int, last: int, anchor: Anchor) -> tuple[ClockSample, ...]:
        """The reads in the window, and one or two just outside, which stand for its edges."""
        margin = round(2 * CLOCK_SECONDS / MICROS)
        points = self._field_series(SM_CLOCK_MHZ).inside(first - margin, last + margin)
        return tuple(
            ClockSample(anchor.seconds_at(p.micros), p.value * 1e6)
            for p in points
            if p.value is not None
        )

    def _cycles(self, last: int) -> CycleTotals | None:
        elapsed, tensor = (self._total(field, last) for field in (CYCLES_ELAPSED, CYCLES_TENSOR))
        if elapsed is None or tensor is None:
            return None
        return CycleTotals(float(elapsed), float(tensor))


def _mean_pipes(parts: Sequence[ActivitySample]) -> Mapping[str, float]:
    """The mean of every pipe that is known in all parts."""
    known = set.intersection(*(set(part.pipes) for part in parts))
    seconds = parts[-1].end - parts[0].start
    return {
        pipe: math.fsum(p.pipes[pipe] * (p.end - p.start) for p in parts) / seconds
        for pipe in parts[0].pipes
        if pipe in known
    }
