"""Keeps all series of one device, and says what they show of a time: means, cycles, energy, evidence of work."""

from __future__ import annotations

import itertools
from collections import defaultdict

from ofu_exporter.sources.dcgm import fields
from ofu_exporter.sources.dcgm.field_series import MICROS, FieldSeries, Point
from ofu_exporter.values.reading import CycleTotals, Evidence

HOLE_INTERVALS = 2.5
"""If a sample comes later than this number of intervals after the last one, the time between is a gap."""
DMMA_TOLERANCE = 0.02
"""The FP64 cycles are used if the tensor cycles of the same sample match the measured activity to within this
much."""


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
