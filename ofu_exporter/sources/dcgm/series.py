"""The samples of each field of a device, in order of time, and what they show: windows, means, cycles, energy, work."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from ofu_exporter.sources.dcgm import fields
from ofu_exporter.sources.dcgm.library import NO_DATA, Sample
from ofu_exporter.values.reading import (
    LONGEST_WINDOW_SECONDS,
    MAX_RATIO,
    SHORTEST_WINDOW_SECONDS,
    CycleTotals,
    Evidence,
)

INTERVAL_MICROS = 10_000
"""A field is polled at its interval or a little later, and intervals are multiples of this: the time between its last
two polls, rounded down, is taken for its interval."""
KEPT_TAKES = 1024


class Measured(NamedTuple):
    """The time that a value is the mean of, in microseconds."""

    until: int
    since: int | None = None
    """None = not known."""


class SampleTimes:
    """Finds out when the values of profiling fields were measured, from the stamps that they bear. For one device.

    All profiling fields of a device share its GPM samples. A host engine polls each field by itself and stamps its
    value with the time of the poll. It takes a new sample only if the newest is as old as the field's interval.
    Otherwise the value is that of the newest sample (DcgmGpmManager.cpp, MaybeFetchNewSample). So stamps come later
    than what they bear, by up to the shortest interval at which any client watches any profiling field of the device.
    A value is the mean since the newest GPM sample that is older by the field's interval (GetLatestSample), so the
    times of two values may overlap or leave a gap where another client's samples lie between.
    """

    def __init__(self) -> None:
        self._takes: list[int] = []
        """Microseconds, in order."""
        self._polled: dict[int, int] = {}
        """The last poll of each field."""

    def in_order(self, samples: Sequence[Sample]) -> Iterator[tuple[Sample, Measured]]:
        """Each sample with the time over which its value was measured, in the order of their stamps.

        Without the samples that were measured before any time that is known.
        """
        for sample in sorted(samples, key=lambda sample: sample.micros):
            measured = self._measured(sample.field, sample.micros)
            if measured is not None:
                yield sample, measured

    def _measured(self, field: int, at: int) -> Measured | None:
        since_poll = at - self._polled.get(field, at)
        interval = since_poll // INTERVAL_MICROS * INTERVAL_MICROS
        if since_poll >= 0:
            self._polled[field] = at
        index = bisect_right(self._takes, at)
        newest = self._takes[index - 1] if index else None
        if newest is None and field != fields.TENSOR:
            return None
        is_last = index == len(self._takes)
        if newest is not None and (not is_last or not 0 < interval <= at - newest):
            return self._over(newest, interval)
        self._takes.insert(index, at)
        del self._takes[:-KEPT_TAKES]
        return self._over(at, interval)

    def _over(self, until: int, interval: int) -> Measured:
        index = bisect_right(self._takes, until - interval)
        return Measured(until, self._takes[index - 1] if interval > 0 and index else None)


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

    def see(self, sample: Sample) -> bool:
        """Note a sample; returns whether it is new. A repeated one is not, nor is `nothing yet`, which has no
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


HOLE_INTERVALS = 2.5
"""If a sample comes later than this number of intervals after the last one, the time between is a gap."""
DMMA_TOLERANCE = 0.02
"""The FP64 cycles are used if the tensor cycles of the same sample match the measured activity to within this much."""


class DeviceSeries:
    """The series of one device by field. Times are in microseconds of the host engine's clock."""

    def __init__(self, interval: float) -> None:
        """`interval`: seconds between two samples."""
        self._interval = interval
        self._hole_micros = HOLE_INTERVALS * interval / MICROS
        self._series: defaultdict[int, FieldSeries] = defaultdict(FieldSeries)

    def dmma(self) -> FieldSeries:
        """Activity of the FP64 tensor pipe by its cycles.

        Blank where not all totals of one instant are known, or where the tensor cycles do not match the measured
        activity.
        """
        series = FieldSeries()
        for before, after in itertools.pairwise(self._series[fields.CYCLES_ELAPSED].points):
            share = self._dmma_share(before.micros, after.micros)
            if share is not None and not series.points:
                series.points.append(Point(before.micros, 0.0))
            if series.points:
                series.points.append(Point(after.micros, share))
        return series

    def _dmma_share(self, first: int, last: int) -> float | None:
        elapsed, tensor, dmma = (self._difference(field, first, last) for field in fields.OF_CYCLES)
        measured = self._series[fields.TENSOR].within(first, last)
        if not elapsed or elapsed < 0 or tensor is None or dmma is None or not measured:
            return None
        lowest, highest = min(measured) - DMMA_TOLERANCE, max(measured) + DMMA_TOLERANCE
        return dmma / elapsed if lowest <= tensor / elapsed <= highest else None

    def _difference(self, field: int, first: int, last: int) -> float | None:
        """What a total grew by."""
        before, after = (self._series[field].at(micros) for micros in (first, last))
        return None if before is None or after is None else after - before

    def mean_of(self, field: int, first: int, last: int) -> float | None:
        """The mean of a field; None if its samples do not cover the whole time."""
        return self._series[field].mean(first, last, self._hole_micros)

    def evidence(self, first: int, last: int) -> Evidence:
        """Other counters that show whether the GPU worked."""
        others = [self.mean_of(field, first, last) for field in fields.OTHER_PIPES]
        measured = [activity for activity in others if activity is not None]
        percent = self.mean_of(fields.GPU_PERCENT, first, last)
        return Evidence(
            other_active=max(measured) if len(measured) == len(fields.OTHER_PIPES) else None,
            power=self._power(last),
            utilization_ratio=None if percent is None else percent / 100,
            worked_seconds=self._worked_seconds(first, last),
        )

    def _worked_seconds(self, first: int, last: int) -> float | None:
        """How long after its start utilization and power last showed work in a window; None if they did not."""
        for point in reversed(self._series[fields.GPU_PERCENT].inside(first, last)):
            evidence = Evidence(
                utilization_ratio=(point.value or 0.0) / 100, power=self._power(point.micros)
            )
            if evidence.shows_work:
                return (point.micros - first) * MICROS
        return None

    def _power(self, micros: int) -> float | None:
        """The power draw at an instant, as a share of the limit in force."""
        power, limit = (
            self._series[field].nearest(micros, self._interval / MICROS)
            for field in (fields.POWER_WATTS, fields.POWER_LIMIT_WATTS)
        )
        return power / limit if power is not None and limit else None

    def joules_at(self, micros: int) -> float | None:
        """What the energy counter showed at an instant."""
        value = self._series[fields.ENERGY_MILLIJOULES].nearest(micros, self._interval / MICROS)
        return None if value is None else value / 1000

    def cycles(self, last: int) -> CycleTotals | None:
        """The totals of the cycle counters at an instant."""
        elapsed, tensor = (self._series[field].at(last) for field in fields.OF_CYCLES[:2])
        if elapsed is None or tensor is None:
            return None
        return CycleTotals(float(elapsed), float(tensor))
