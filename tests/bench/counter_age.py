"""How often a window holds the truth within two stated errors, for loads that go on and off at random.

    python -m tests.bench.counter_age

The truth is the integral of the load. The counters are renewed every 0.1 s at some phase, as an H200's were
(docs/hardware.md), so each end of a window is that much older than it seems. The clock is constant.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from itertools import accumulate, product

from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.ofu.cycles import CycleTrust
from ofu_exporter.ofu.window import measure
from ofu_exporter.values.reading import (
    COUNTER_AGE_SECONDS,
    SHORTEST_WINDOW_SECONDS,
    ClockSample,
    CycleTotals,
    Reading,
)
from tests.helpers.values import gpu

LOADS = ((0.3, 0.3), (1.0, 1.0), (2.2, 0.9), (10.0, 5.0), (0.05, 0.25))
"""Mean seconds on and off; each stretch is drawn from an exponential distribution."""
WINDOWS = 2000
LATE_SECONDS = 0.003
"""A thread wakes up to this late, so that the phase of the counters wanders."""


class Load:
    """The seconds on since 0, at every moment."""

    def __init__(self, chance: random.Random, on: float, off: float, seconds: float) -> None:
        pairs = int(2 * seconds / (on + off)) + 20
        lengths = [chance.expovariate(1 / mean) for _ in range(pairs) for mean in (on, off)]
        self._edges = [0.0, *accumulate(lengths)]
        self._on = [0.0, *accumulate(each if not i % 2 else 0.0 for i, each in enumerate(lengths))]

    def until(self, at: float) -> float:
        last = bisect_right(self._edges, at) - 1
        return self._on[last] + (0.0 if last % 2 else at - self._edges[last])


class Judge:
    """Measures one window after the other as the agent does, with cycle counters or without."""

    def __init__(self, is_counted: bool) -> None:
        self._gpu, self._is_counted, self._trust = gpu(), is_counted, CycleTrust()
        rating = rate(self._gpu)
        assert rating is not None
        self._rating, self._hz = rating, rating.tensor_clock_hz["low_precision"]

    def measured(
        self, start: float, end: float, active: float, totals: tuple[float, float]
    ) -> tuple[float, float]:
        """OFU and its stated error; the totals are the counters' seconds until the end, and those on."""
        reads = [ClockSample(start + i * (end - start) / 10, self._hz) for i in range(1, 11)]
        cycles = CycleTotals(*(self._hz * each for each in totals)) if self._is_counted else None
        reading = Reading(
            self._gpu,
            start,
            end,
            active,
            clocks=tuple(reads),
            cycles=cycles,
            edge_seconds=COUNTER_AGE_SECONDS,
        )
        outcome = measure(reading, self._rating, self._trust)
        self._trust, window = outcome.trust, outcome.window
        assert window is not None
        assert window.utilization is not None
        assert window.stderr is not None
        return window.utilization, window.stderr


def row(
    chance: random.Random, seconds: float, on: float, off: float, is_counted: bool
) -> tuple[float, float, float]:
    """Share of windows with the truth within two errors, and both errors' root mean squares."""
    load = Load(chance, on, off, WINDOWS * (seconds + LATE_SECONDS) + 2)
    judge, phase = Judge(is_counted), chance.uniform(0, SHORTEST_WINDOW_SECONDS)
    end, within, real, stated = 1.0, 0, 0.0, 0.0
    for _ in range(WINDOWS):
        start, end = end, end + seconds + chance.uniform(0, LATE_SECONDS)
        old, new = (_renewed(at, phase) for at in (start, end))
        on = load.until(new)
        active = (on - load.until(old)) / (new - old)
        ofu, error = judge.measured(start, end, active, (new, on))
        miss = ofu - (load.until(end) - load.until(start)) / (end - start)
        within += abs(miss) <= 2 * error + 1e-9
        real, stated = real + miss**2, stated + error**2
    return within / WINDOWS, math.sqrt(real / WINDOWS), math.sqrt(stated / WINDOWS)


def _renewed(at: float, phase: float) -> float:
    return math.floor((at - phase) / SHORTEST_WINDOW_SECONDS) * SHORTEST_WINDOW_SECONDS + phase


def main() -> None:
    chance = random.Random(5)
    print("clock   window, s  on, s  off, s  truth within 2 errors  real, points  stated, points")
    for is_counted, seconds in product((False, True), (1.0, 5.0, 30.0)):
        for on, off in LOADS:
            share, real, stated = row(chance, seconds, on, off, is_counted)
            print(
                f"{'cycles' if is_counted else 'polled'} {seconds:10g} {on:6g} {off:7g} {share:22.0%}"
                f" {100 * real:13.2f} {100 * stated:15.2f}"
            )


if __name__ == "__main__":
    main()
