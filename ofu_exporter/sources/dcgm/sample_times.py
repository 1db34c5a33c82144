"""Finds out when the values of profiling fields were measured, from the stamps that they bear: pure.

All profiling fields of a device share its GPM samples. A host engine polls each field by itself and stamps its value
with the time of the poll. It takes a new sample only if the newest is as old as the field's interval. Otherwise the
value is that of the newest sample (DcgmGpmManager.cpp, MaybeFetchNewSample). So stamps come later than what they bear,
by up to the shortest interval at which any client watches any profiling field of the device. A value is the mean since
the newest GPM sample that is older by the field's interval (GetLatestSample), so the times of two values may overlap or
leave a gap where another client's samples lie between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.sources.dcgm.fields import TENSOR
from ofu_exporter.sources.dcgm.library import Sample

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
    """The times at which the samples of one device were taken."""

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
        if newest is None and field != TENSOR:
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
