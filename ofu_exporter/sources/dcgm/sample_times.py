"""Finds out when the values of profiling fields were measured, from the stamps that they bear: pure.

All profiling fields of a device share its GPM samples. A host engine polls each field by itself and stamps its value
with the time of the poll. It takes a new sample only if the newest is as old as the field's interval. Otherwise the
value is that of the newest sample (DcgmGpmManager.cpp, MaybeFetchNewSample). So stamps come later than what they bear,
by up to the shortest interval at which any client watches any profiling field of the device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ofu_exporter.sources.dcgm.fields import TENSOR
from ofu_exporter.sources.dcgm.library import Sample

POLL_TOLERANCE = 0.98
"""A field is polled at its interval or a little later. The time between its last two polls is taken for its interval
when multiplied by this."""
KEPT_TAKES = 1024


class SampleTimes:
    """The times at which the samples of one device were taken."""

    def __init__(self) -> None:
        self._takes: list[int] = []
        """Microseconds, in order."""
        self._polled: dict[int, int] = {}
        """The last poll of each field."""

    def in_order(self, samples: Sequence[Sample]) -> Iterator[tuple[Sample, int]]:
        """Each sample with the time at which its value was measured, in the order of their stamps.

        Without the samples that were measured before any time that is known.
        """
        for sample in sorted(samples, key=lambda sample: sample.micros):
            measured = self._measured(sample.field, sample.micros)
            if measured is not None:
                yield sample, measured

    def _measured(self, field: int, at: int) -> int | None:
        interval = at - self._polled.get(field, at)
        if interval >= 0:
            self._polled[field] = at
        index = bisect_right(self._takes, at)
        newest = self._takes[index - 1] if index else None
        if newest is None and field != TENSOR:
            return None
        is_last = index == len(self._takes)
        if newest is not None and (not is_last or not 0 < POLL_TOLERANCE * interval <= at - newest):
            return newest
        self._takes.insert(index, at)
        del self._takes[:-KEPT_TAKES]
        return at
