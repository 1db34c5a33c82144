"""Takes GPM samples inside a window, and tells at its end how the tensor activity lay in it.

A sample is cheap and its metrics are not (on an H100 50 µs and 1.7 ms), so a sample is only asked about when the window
ends, and for one metric.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from ofu_exporter.sources.nvml.nvml_errors import SUCCESS, ask, errors
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS, ActivitySample

ANY_TENSOR = 5
"""nvml.h, nvmlGpmMetricId_t: percent of the cycles."""
MOST_SAMPLES = 64
"""Most samples inside one window: a window of 30 s with a sample at each poll of the clock."""


class GpmSample(NamedTuple):
    """A GPM sample, and when it was taken."""

    at: float
    sample: Any


class InnerSamples:
    """The samples inside the open window of one target. They are used again in the next window."""

    def __init__(self, nvml: ModuleType, take: Callable[[Any], float]) -> None:
        """`take` fills a sample and returns the time. It may raise the binding's errors."""
        self._nvml = nvml
        self._take = take
        self._taken: list[GpmSample] = []
        self._free: list[Any] = []
        self._query = nvml.c_nvmlGpmMetricsGet_t()
        self._query.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._query.numMetrics = 1
        self._query.metrics[0].metricId = ANY_TENSOR

    def take(self) -> None:
        """Take one more. A failure costs only this sample: the end of the window will show it."""
        if len(self._taken) >= MOST_SAMPLES:
            self._free += [each.sample for each in self._taken[1::2]]
            del self._taken[1::2]
        if not self._free:
            fresh = ask(self._nvml, self._nvml.nvmlGpmSampleAlloc)
            self._free += [] if fresh is None else [fresh]
        if self._free:
            at = ask(self._nvml, self._take, self._free[-1])
            if at is not None:
                self._taken.append(GpmSample(at, self._free.pop()))

    def end_window(self, first: GpmSample, last: GpmSample) -> tuple[ActivitySample, ...]:
        """The tensor activity of the parts of a window, from its first to its last sample; none where it is not known.

        The next window begins without inner samples.
        """
        taken, self._taken = self._taken, []
        self._free += [each.sample for each in taken]
        ends = [first]
        for each in taken:
            if min(each.at - ends[-1].at, last.at - each.at) >= SHORTEST_WINDOW_SECONDS:
                ends.append(each)
        pairs = list(itertools.pairwise([*ends, last]))
        ratios = [self._between(*pair) for pair in pairs] if len(pairs) > 1 else []
        if None in ratios:
            return ()
        return tuple(
            ActivitySample(before.at, after.at, ratio or 0.0, {})
            for ratio, (before, after) in zip(ratios, pairs, strict=False)
        )

    def _between(self, before: GpmSample, after: GpmSample) -> float | None:
        entry = self._query.metrics[0]
        entry.nvmlReturn, entry.value = SUCCESS, -1.0
        self._query.sample1, self._query.sample2 = before.sample, after.sample
        try:
            self._nvml.nvmlGpmMetricsGet(self._query)
        except errors(self._nvml):
            return None
        ratio = float(entry.value) / 100
        return ratio if entry.nvmlReturn == SUCCESS and ratio >= 0 else None

    def close(self) -> None:
        samples = [*self._free, *(each.sample for each in self._taken)]
        self._free, self._taken = [], []
        for sample in samples:
            ask(self._nvml, self._nvml.nvmlGpmSampleFree, sample)
