"""Makes readings from the samples that a host engine took of one device: pure, no clock, no call.

A sample of a ratio is the mean over the time since the sample before it. A window has a part for each sample of the
tensor counter, and ends at a time up to which all other fields have samples: with a sample of the cycle counters where
there are such, otherwise with one of the tensor counter. Time with a blank or without samples is not measured: a window
ends before it, and the next begins after it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.sources.dcgm import fields
from ofu_exporter.sources.dcgm.library import FIRST_PROFILING_FIELD, Sample
from ofu_exporter.sources.dcgm.series import (
    MICROS,
    ROUND_MICROS,
    DeviceSeries,
    FieldSeries,
    Measured,
    Point,
    SampleTimes,
    is_short,
    mean,
    runs_of,
)
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import (
    COUNTER_AGE_SECONDS,
    Activity,
    ActivitySample,
    ClockSample,
    Reading,
)

STAMP_SECONDS = 0.004
"""A sample bears the time at which the host engine began its poll, and is taken some milliseconds later: a round of all
fields took 1 to 4 ms."""
MOST_WAITING = 32768
"""Most samples of a device that wait to be put into their series."""


class Anchor(NamedTuple):
    """One instant on two clocks: that of the samples and that of the readings."""

    micros: int
    seconds: float

    def seconds_at(self, micros: int) -> float:
        return self.seconds + (micros - self.micros) * MICROS


class DeviceSamples(DeviceSeries):
    """All series of one device, and the readings made of them."""

    def __init__(self, gpu: Gpu, interval: float) -> None:
        super().__init__(interval)
        self.gpu = gpu
        self.missing: frozenset[int] = frozenset()
        """Fields that had values before, but did not cover the last window."""
        self._times = SampleTimes()
        self._waiting: list[Sample] = []
        """Samples that are in no series yet."""
        self._dmma_series = FieldSeries()
        self._from_micros = 0
        """No window begins before this time."""
        self._end: Anchor | None = None
        """The end of the last reading."""
        self._joules: Point | None = None
        """What the energy counter showed then."""

    def add(self, sample: Sample) -> bool:
        """Add a sample; returns whether it is new."""
        is_new = self._series[sample.field].see(sample)
        if is_new:
            self._waiting.append(sample)
            del self._waiting[:-MOST_WAITING]
        return is_new

    @property
    def last_code(self) -> int:
        """The code of the latest sample of the tensor counter: 0 = measured."""
        return self._series[fields.TENSOR].last_code

    def take_disordered(self) -> int:
        """How many samples came out of order since the last call."""
        count = sum(series.disordered for series in self._series.values())
        for series in self._series.values():
            series.disordered = 0
        return count

    def forget(self) -> None:
        """Start again: no reading includes this instant."""
        self._series.clear()
        self._waiting.clear()
        self._times = SampleTimes()
        self._from_micros = 0
        self._end = self._joules = None

    def readings(self, anchor: Anchor) -> list[Reading]:
        """The readings since the last call: windows without a gap inside.

        All samples with stamps up to the anchor have been added.
        """
        self._sort_in(anchor.micros)
        until = self._covered_until()
        self._dmma_series = self.dmma()
        runs = runs_of(self._spanned(self._begin(), until), self._hole_micros)
        readings = [self._reading(run, anchor) for run in runs if not is_short(run)]
        self._forget(runs, until)
        return [reading for reading in readings if reading is not None]

    def _sort_in(self, until: int) -> None:
        """Put the samples with stamps up to this time into their series."""
        due = [sample for sample in self._waiting if sample.micros <= until]
        self._waiting = [sample for sample in self._waiting if sample.micros > until]
        for sample in due:
            if sample.field < FIRST_PROFILING_FIELD:
                self._series[sample.field].add(sample, Measured(sample.micros))
        profiled = [sample for sample in due if sample.field >= FIRST_PROFILING_FIELD]
        for sample, measured in self._times.in_order(profiled):
            self._series[sample.field].add(sample, measured)

    def _covered_until(self) -> int:
        """The time at which the next window ends: every field has samples up to then, not counting fields that no
        longer have values."""
        tensor = self._series[fields.TENSOR]
        alive = {
            field: series
            for field, series in self._series.items()
            if field in fields.OVER_TIME or field in fields.OF_PROFILING or field == fields.TENSOR
            if series.brought_micros
            and tensor.last_micros - series.last_micros <= self._hole_micros
        }
        covered = min((s.last_micros for s in alive.values()), default=tensor.last_micros)
        until = min(covered + ROUND_MICROS, tensor.last_micros)
        ended = {
            field: {point.micros for point in series.points} for field, series in alive.items()
        }
        for ending in fields.ENDING:
            ends = set.intersection(*[ended[each] for each in ending if each in alive] or [set()])
            recent = [micros for micros in ends if until - self._hole_micros <= micros <= until]
            if recent:
                return max(recent)
        return max((p.micros for p in tensor.points if p.micros <= until), default=until)

    def _begin(self) -> int:
        """Where the next window begins. The first begins when every field that has values has had one."""
        if self._end is not None:
            return self._from_micros
        first = (
            series.brought_micros - ROUND_MICROS
            for field, series in self._series.items()
            if field in fields.OVER_TIME or field in fields.OF_PROFILING
        )
        return max(first, default=self._from_micros)

    def _spanned(self, begin: int, until: int) -> list[Point]:
        """The samples of the tensor counter in this time. One that reaches beyond it is cut."""
        points = self._series[fields.TENSOR].points
        inside = [point for point in points if begin <= point.micros <= until]
        for before, after in itertools.pairwise(points):
            is_whole = after.micros - before.micros <= self._hole_micros
            if is_whole and before.micros < begin == self._from_micros < after.micros:
                inside.insert(0, Point(begin, before.value))
            if is_whole and before.micros < until < after.micros and until > begin:
                inside.append(Point(until, after.value))
        return inside

    def _cut(self, run: Sequence[Point]) -> float:
        """Microseconds for which a part of another sample stands: at both ends of a window, and inside."""
        points = self._series[fields.TENSOR].points
        ends = (
            min(abs(point.micros - end.micros) for point in points) for end in (run[0], run[-1])
        )
        return math.hypot(max(ends), *(point.apart / math.sqrt(2) for point in run[1:]))

    def _forget(self, runs: Sequence[Sequence[Point]], until: int) -> None:
        """Forget all samples before the beginning of the next window."""
        until_read = max((p.micros for run in runs for p in run), default=0)
        points = self._series[fields.TENSOR].points
        until_read = max([until_read, *[p.micros for p in points if p.micros <= until]])
        if runs and runs[-1][-1].micros == until_read and is_short(runs[-1]):
            until_read = runs[-1][0].micros
        self._from_micros = max(until_read, self._from_micros)
        for series in self._series.values():
            series.keep_from(self._from_micros - round(2 * self._interval / MICROS))

    def _reading(self, run: Sequence[Point], anchor: Anchor) -> Reading | None:
        first, last = run[0].micros, run[-1].micros
        before = self._end if self._end and self._end.micros == first else None
        # The clocks may have drifted; windows still leave no gap.
        start = anchor.seconds_at(first) if before is None else before.seconds
        end = anchor.seconds_at(last)
        if end <= start:
            return None
        self._end = Anchor(last, end)
        samples = self._samples_of(run, start, end)
        reading = Reading(
            gpu=self.gpu,
            start=start,
            end=end,
            tensor_active=mean(run),
            pipes=_mean_pipes(samples),
            samples=samples,
            clocks=self._clocks(first, last, anchor),
            cycles=self.cycles(last),
            evidence=None if self.gpu.instance else self.evidence(first, last),
            activity=self._activity(first, last),
            pace=self._interval,
            edge_seconds=math.hypot(STAMP_SECONDS, COUNTER_AGE_SECONDS),
            cut_seconds=self._cut(run) * MICROS,
        )
        self.missing = frozenset(self._missing(first, last))
        return reading

    def _samples_of(
        self, run: Sequence[Point], start: float, end: float
    ) -> tuple[ActivitySample, ...]:
        first, last = run[0].micros, run[-1].micros
        scale = (end - start) / (last - first)
        times = [start + (point.micros - first) * scale for point in run]
        return tuple(
            ActivitySample(
                *times,
                after.value or 0.0,
                self._pipes(before, after),
                self.mean_of(fields.SM, before.micros, after.micros),
            )
            for times, (before, after) in zip(
                itertools.pairwise(times), itertools.pairwise(run), strict=True
            )
        )

    def _pipes(self, before: Point, after: Point) -> Mapping[str, float]:
        """The activity of every pipe whose samples cover one sample of the tensor counter."""
        span = (before.micros, after.micros)
        means = {pipe: self.mean_of(field, *span) for pipe, field in fields.PIPES.items()}
        means["dmma"] = self._dmma_series.mean(*span, self._hole_micros)
        return {pipe: mean for pipe, mean in means.items() if mean is not None}

    def _missing(self, first: int, last: int) -> list[int]:
        return [
            field
            for field, series in self._series.items()
            if field in fields.OVER_TIME and 0 < series.brought_micros <= first
            if self.mean_of(field, first, last) is None
        ]

    def _activity(self, first: int, last: int) -> Activity:
        """What else the GPU did in the window; a field whose samples do not cover it is left out."""
        means = {name: self.mean_of(field, first, last) for name, field in fields.ACTIVITY.items()}
        return Activity(**means, energy_joules=self._energy(first, last))

    def _energy(self, first: int, last: int) -> float | None:
        """The energy since the window before, so that no joule is counted twice or lost.

        None without the counter, and of an instance, whose card's it is.
        """
        if self.gpu.instance:
            return None
        before = self._joules if self._joules and self._joules.micros == first else None
        start = self.joules_at(first) if before is None else before.value
        end = self.joules_at(last)
        self._joules = None if end is None else Point(last, end)
        return None if start is None or end is None else end - start

    def _clocks(self, first: int, last: int, anchor: Anchor) -> tuple[ClockSample, ...]:
        """The reads in the window, and one or two just outside, which stand for its edges."""
        margin = round(2 * fields.CLOCK_SECONDS / MICROS)
        points = self._series[fields.SM_CLOCK_MHZ].inside(first - margin, last + margin)
        return tuple(
            ClockSample(anchor.seconds_at(p.micros), p.value * 1e6)
            for p in points
            if p.value is not None
        )


def _mean_pipes(samples: Sequence[ActivitySample]) -> Mapping[str, float]:
    """The mean of every pipe that is known in all samples."""
    in_all = set.intersection(*(set(each.pipes) for each in samples))
    seconds = samples[-1].end - samples[0].start
    return {
        pipe: math.fsum(p.pipes[pipe] * (p.end - p.start) for p in samples) / seconds
        for pipe in samples[0].pipes
        if pipe in in_all
    }
