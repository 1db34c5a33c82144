"""Averages the SM clock over a window, or over stretches of it, from point reads, and tells the error of that.

A read stands for the time that is nearer to it than to any other read. So a burst of reads after a stall does not
outweigh the time without reads, and a read just outside the window stands for the edge of the window.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ofu_exporter.values.reading import ClockSample

CLOCK_STEP_HZ = 15e6
"""The driver sets the SM clock in steps of this size (`nvidia-smi -q -d SUPPORTED_CLOCKS`): no read is more exact."""
ROUNDING_VARIANCE = CLOCK_STEP_HZ**2 / 12
"""Variance of a read that is rounded to such a step."""
BLIND_SECONDS = 2.5
"""Where the next read is farther away than this, the clock can have been anything the card can do. Chosen: with 1 the
error of 3.5 s without a read is stated as 240 MHz, of a clock of two values of which 150 MHz already hold the truth."""
REMEMBERED_READS = 5
"""The variance of earlier windows counts as much as this many reads. A clock that drops for a moment every few seconds
does not show that in each window: with 0 the truth lies outside of two errors in one window of seven, with 5 in one of
60 (tests/ofu/test_clock.py)."""
FORGETTING = 0.2
"""The share that a new window has in what is remembered. Chosen: from 0.05 to 0.5 such a clock is judged alike; with 1
the truth lies outside of two errors in one window of 20 (tests/ofu/test_clock.py)."""


class Weighed(NamedTuple):
    """A stretch of time, and the weight that each hertz of the clock has in it."""

    start: float
    end: float
    weight: float


class ClockMemory(NamedTuple):
    """What windows have shown of the clock, and how often it was read."""

    variance: float
    """Of a read about the clock of its time."""
    mean_hz: float
    spread: float
    """Variance of the clock about its mean, over all windows that are remembered."""
    gap: float
    """Seconds that usually lie between two reads; 0 where there were too few to say."""

    def with_window(self, new: ClockMemory) -> ClockMemory:
        away, old = new.mean_hz - self.mean_hz, 1 - FORGETTING
        return ClockMemory(
            variance=old * self.variance + FORGETTING * new.variance,
            mean_hz=self.mean_hz + FORGETTING * away,
            spread=old * (self.spread + FORGETTING * away**2) + FORGETTING * new.spread,
            gap=old * self.gap + FORGETTING * new.gap
            if self.gap and new.gap
            else self.gap or new.gap,
        )

    def deviation_from(self, hz: float) -> float:
        """What the clock is away from `hz` at some other time, root mean square."""
        return math.hypot(math.sqrt(self.spread), self.mean_hz - hz)


class BlindSpan(NamedTuple):
    """Time that is too far from any read, and what the clock may be away then from the one that is taken for it."""

    start: float
    end: float
    deviation_hz: float


class _Integral:
    """The integral of a value that is constant in each of some stretches of time, which are in order."""

    def __init__(self, stretches: Iterable[tuple[float, float, float]]) -> None:
        self._stretches = list(stretches)
        self._starts = [start for start, _, _ in self._stretches]
        areas = [value * (end - start) for start, end, value in self._stretches]
        self._before = [0.0, *itertools.accumulate(areas)]

    def over(self, start: float, end: float) -> float:
        return self.until(end) - self.until(start)

    def until(self, time: float) -> float:
        index = bisect_right(self._starts, time) - 1
        if index < 0:
            return 0.0
        start, end, value = self._stretches[index]
        return self._before[index] + value * (min(time, end) - start)


class ClockCurve(NamedTuple):
    """The SM clock over one window, which is divided into cells: the time that each read stands for."""

    hz: Sequence[float]
    """What was read, in the order of time."""
    bounds: Sequence[float]
    """Where the cells begin, and where the last one ends."""
    variances: Sequence[float]
    """Variance of the clock about each read, from its difference to the reads beside it."""
    blind: Sequence[BlindSpan]
    memory: ClockMemory
    """Of this window and those before."""
    remembered: int
    """How many reads of earlier windows are in the variances about the reads too."""

    def cycles(self, spans: Iterable[tuple[float, float]]) -> list[float]:
        """The cycles that elapsed in each of these stretches of the window."""
        elapsed = _Integral(zip(self.bounds, self.bounds[1:], self.hz, strict=False))
        return [elapsed.over(*span) for span in spans]

    def error(self, stretches: Sequence[Weighed]) -> float | None:
        """Standard error of the weighed sum of cycles; None with one read, which shows no spread."""
        if len(self.hz) < 2:
            return None
        weight = _Integral(stretches)
        until = [weight.until(bound) for bound in self.bounds]
        inside = [after - before for before, after in itertools.pairwise(until)]
        noise = math.fsum([w**2 * v for w, v in zip(inside, self.variances, strict=True)])
        unseen = math.fsum([weight.over(a, b) * deviation for a, b, deviation in self.blind])
        return math.sqrt(self._small_sample() ** 2 * noise + unseen**2)

    def _small_sample(self) -> float:
        """Student's t over the normal distribution, at 95 %: a spread that few reads show is known badly.

        The series is Fisher's (Abramowitz and Stegun 1964, 26.7.5) at 1.96. The spread is that of neighbours'
        differences, which tell as much as two thirds as many independent reads (von Neumann 1941).
        """
        lengths = [end - start for start, end in itertools.pairwise(self.bounds)]
        count = math.fsum(lengths) ** 2 / math.fsum([length**2 for length in lengths])
        freedom = max(1.0, 2 / 3 * (count - 1 + self.remembered))
        return 1 + 1.21 / freedom + 1.44 / freedom**2 + 1.3 / freedom**3


def clock_curve(
    samples: Iterable[ClockSample],
    span: tuple[float, float],
    highest_hz: float,
    remembered: ClockMemory | None = None,
) -> ClockCurve | None:
    """The clock over a window; None without a read. `remembered` is the memory of the curve before."""
    start, end = span
    reads = sorted(samples)
    if not reads or end <= start:
        return None
    ats, hz = zip(*reads, strict=True)
    measured = _variances(hz)
    shown = _shown(ats, hz, measured)
    variances = shown if remembered is None else remembered
    memory = shown if remembered is None else remembered.with_window(shown)
    count, before = len(measured), REMEMBERED_READS * variances.variance
    middles = [(a + b) / 2 for a, b in itertools.pairwise(ats)]
    bounds = [start, *[min(max(middle, start), end) for middle in middles], end]
    return ClockCurve(
        hz=hz,
        bounds=bounds,
        variances=[
            (count * variance + before) / (count + REMEMBERED_READS) for variance in measured
        ],
        blind=_blind([*map(_Cell, ats, hz, bounds, bounds[1:])], memory, highest_hz),
        memory=memory,
        remembered=0 if remembered is None else REMEMBERED_READS,
    )


def _shown(ats: Sequence[float], hz: Sequence[float], variances: Sequence[float]) -> ClockMemory:
    mean = math.fsum(hz) / len(hz)
    return ClockMemory(
        variance=math.fsum(variances) / len(variances),
        mean_hz=mean,
        spread=math.fsum([(each - mean) ** 2 for each in hz]) / len(hz),
        gap=_usual_gap(ats),
    )


class _Cell(NamedTuple):
    """A read of the clock, and the time that it stands for."""

    at: float
    hz: float
    start: float
    end: float


def _blind(cells: Sequence[_Cell], memory: ClockMemory, highest_hz: float) -> list[BlindSpan]:
    """The time of each cell that is unusually far from its read.

    For some time the clock is taken for one of those that were seen in the last windows. Later it can be anything that
    the card can do.
    """
    usual = memory.gap or BLIND_SECONDS
    far = [each for each in cells if each.at - usual > each.start or each.at + usual < each.end]
    unseen = max(BLIND_SECONDS, usual)
    sides = [
        side
        for at, hz, start, end in far
        for near, until, deviation in (
            (usual, unseen, memory.deviation_from(hz)),
            (unseen, math.inf, _unknown_hz(hz, highest_hz)),
        )
        for side in (
            BlindSpan(max(start, at - until), min(end, at - near), deviation),
            BlindSpan(max(start, at + near), min(end, at + until), deviation),
        )
    ]
    return [side for side in sides if side.end > side.start]


def _unknown_hz(taken_hz: float, highest_hz: float) -> float:
    """The deviation from `taken_hz` of a clock that may be anything from 0 to the highest."""
    half = highest_hz / 2
    return math.hypot(half / math.sqrt(3), taken_hz - half)


def _variances(hz: Sequence[float]) -> list[float]:
    """The variance about each read: half of the squared difference to the reads beside it. It is never 0.

    Noise makes such differences, and a slow drift hardly does.
    """
    squares = [(b - a) ** 2 / 2 for a, b in itertools.pairwise(hz)]
    first, last = (squares[0], squares[-1]) if squares else (0.0, 0.0)
    beside = zip([first, *squares], [*squares, last], strict=True)
    return [(left + right) / 2 + ROUNDING_VARIANCE for left, right in beside]


def _usual_gap(ats: Sequence[float]) -> float:
    """The time that usually lies between two reads; 0 where there are too few to say."""
    gaps = [b - a for a, b in itertools.pairwise(ats)]
    return statistics.median_low(gaps) if len(gaps) > 1 else 0.0
