"""Makes one reading into one window: averages the clock, checks the values and computes OFU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ofu_exporter.ofu import cycles, formula
from ofu_exporter.ofu.cycles import CycleTrust, Expected
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.reading import (
    ABSURD_CLOCK_HZ,
    LONGEST_WINDOW_SECONDS,
    LOWEST_CLOCK_HZ,
    MAX_RATIO,
    SHORTEST_WINDOW_SECONDS,
    ClockSample,
    Reading,
    Window,
)
from ofu_exporter.values.reasons import Reason, Rejection

CLOCK_HEADROOM = 1.1
"""NVML's maximum clock may be off by a few MHz; a clock above this multiple is another field's value."""

# A late thread makes a window longer than was asked for; the mean over it is still true.
_ACCEPTED_SECONDS = (0.9 * SHORTEST_WINDOW_SECONDS, 2 * LONGEST_WINDOW_SECONDS)


@dataclass(frozen=True, slots=True)
class ClockMean:
    """The SM clock over one window, from point reads."""

    hz: float
    std_hz: float | None
    """Sample standard deviation; None with fewer than two reads."""
    samples: float
    """Effective number of reads: (sum of weights)^2 / sum of squared weights."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one reading: a window, why it has no OFU, and every value that was not believed."""

    window: Window | None
    trust: CycleTrust
    reason: Reason | None = None
    detail: str = ""
    rejected: tuple[Rejection, ...] = ()


def mean_clock(samples: Sequence[ClockSample], start: float, end: float) -> ClockMean | None:
    """Time-weighted mean of the point reads that belong to (start, end]; None without a read.

    A read stands for the time that is nearer to it than to any other read, inside the window; so
    a burst of reads after a stall does not outweigh the time without reads. A read a moment outside
    the window, beside the counter read that bounds it, counts as one at the window's edge.
    """
    if not samples:
        return None
    inside = sorted(ClockSample(min(max(s.at, start), end), s.hz) for s in samples)
    edges = [start, *((a.at + b.at) / 2 for a, b in itertools.pairwise(inside)), end]
    weights = [right - left for left, right in itertools.pairwise(edges)]
    total = math.fsum(weights)
    if total <= 0:
        return None
    if len(inside) == 1:
        return ClockMean(inside[0].hz, None, 1.0)  # as it was read, without a rounding
    mean = math.fsum(w * s.hz for w, s in zip(weights, inside, strict=True)) / total
    count = total**2 / math.fsum(w * w for w in weights)
    spread = math.fsum((s.hz - mean) ** 2 for s in inside) / (len(inside) - 1)
    return ClockMean(mean, math.sqrt(spread), count)


def measure(reading: Reading, rating: Rating | None, trust: CycleTrust) -> Outcome:
    """Check every value of a reading and compute its OFU, which needs a rating.

    An impossible value is never clamped or replaced: it is named in `rejected`, and the window is
    refused when nothing believable is left of what it needs.
    """
    length = _length_rejection(reading)
    if length is not None:
        return _refused(reading, [length])
    impossible = _ratio_rejection(reading.tensor_active)
    if impossible is not None:
        return _refused(reading, [impossible])
    clocks, refused = _believable_clocks(reading.clocks, clock_limit_hz(reading, rating))
    clock = mean_clock(clocks, reading.start, reading.end)
    if clock is None and refused:
        return _refused(reading, refused)
    if reading.tensor_active is None or clock is None or rating is None:
        return _incomplete(reading, clock, refused)
    return _computed(reading, rating, trust, clock, refused)


def _incomplete(reading: Reading, clock: ClockMean | None, refused: list[Rejection]) -> Outcome:
    """A window with what was measured, and the reason why that makes no OFU."""
    window = Window(
        start=reading.start,
        end=reading.end,
        tensor_active=reading.tensor_active,
        pipes=_believable_pipes(reading.pipes)[0],
        sm_clock_hz=clock.hz if clock else None,
    )
    reason = Reason.UNKNOWN_MODEL if clock else Reason.NO_CLOCK
    if reading.tensor_active is None:
        reason = Reason.NO_TENSOR_COUNTER
    return Outcome(window, CycleTrust(reading.cycles), reason, rejected=tuple(refused))


def clock_limit_hz(reading: Reading, rating: Rating | None) -> float:
    """The highest SM clock that is believed of this card."""
    of_model = rating.max_sm_clock_hz if rating else None
    known = [hz for hz in (reading.gpu.max_sm_clock_hz, of_model) if hz]
    return CLOCK_HEADROOM * max(known) if known else ABSURD_CLOCK_HZ


def _computed(
    reading: Reading,
    rating: Rating,
    trust: CycleTrust,
    clock: ClockMean,
    refused: list[Rejection],
) -> Outcome:
    tensor_active = reading.tensor_active or 0.0
    expected = Expected(
        seconds=reading.end - reading.start,
        tensor_active=tensor_active,
        sm_clock_hz=clock.hz,
        clock_limit_hz=clock_limit_hz(reading, rating),
        sm_count=reading.gpu.sm_count or (None if reading.gpu.instance else rating.sm_count),
    )
    verdict = cycles.judge(trust, reading.cycles, expected)
    if verdict.implausible:
        refused = [*refused, Rejection.CYCLES_IMPLAUSIBLE]
    counted = verdict.sm_clock_hz is not None and verdict.tensor_active is not None
    hz = verdict.sm_clock_hz if verdict.sm_clock_hz is not None else clock.hz
    active = verdict.tensor_active if verdict.tensor_active is not None else tensor_active
    pipes, refused_pipes = _believable_pipes(reading.pipes)
    refused = [*refused, *refused_pipes]
    domains = formula.activity_by_domain(active, pipes)
    value = formula.utilization_over_domains(domains, hz, rating.tensor_clock_hz)
    if counted:
        method, stderr = "cycles", 0.0
    elif clock.std_hz is None:
        method, stderr = "point", None
    else:
        method = "polled"
        stderr = formula.standard_error(value, hz, clock.std_hz, clock.samples)
    window = Window(
        start=reading.start,
        end=reading.end,
        tensor_active=active,
        pipes=pipes,
        sm_clock_hz=hz,
        utilization=value,
        stderr=stderr,
        clock_method=method,
    )
    return Outcome(window, verdict.trust, rejected=tuple(refused))


def _refused(reading: Reading, rejected: list[Rejection]) -> Outcome:
    names = ", ".join(rejection.value for rejection in rejected)
    return Outcome(None, CycleTrust(reading.cycles), Reason.IMPOSSIBLE, names, tuple(rejected))


def _length_rejection(reading: Reading) -> Rejection | None:
    shortest, longest = _ACCEPTED_SECONDS
    seconds = reading.end - reading.start
    if not math.isfinite(seconds):
        return Rejection.NOT_A_NUMBER
    if seconds < shortest:
        return Rejection.WINDOW_TOO_SHORT
    return Rejection.WINDOW_TOO_LONG if seconds > longest else None


def _ratio_rejection(value: float | None) -> Rejection | None:
    if value is None:
        return None
    if not math.isfinite(value):
        return Rejection.NOT_A_NUMBER
    return None if 0.0 <= value <= MAX_RATIO else Rejection.TENSOR_OUT_OF_RANGE


def _believable_pipes(pipes: Mapping[str, float]) -> tuple[dict[str, float], list[Rejection]]:
    """The pipe ratios that can be true, and a rejection for each other: a bad one costs itself, not the window."""
    judged = {pipe: _ratio_rejection(value) for pipe, value in pipes.items()}
    kept = {pipe: pipes[pipe] for pipe, rejection in judged.items() if rejection is None}
    return kept, [rejection for rejection in judged.values() if rejection is not None]


def _believable_clocks(
    samples: Sequence[ClockSample], limit_hz: float
) -> tuple[list[ClockSample], list[Rejection]]:
    """The clock reads that can be true, and a rejection for each other."""
    kept: list[ClockSample] = []
    refused: list[Rejection] = []
    for sample in samples:
        if not math.isfinite(sample.hz):
            refused.append(Rejection.NOT_A_NUMBER)
        elif not LOWEST_CLOCK_HZ <= sample.hz <= limit_hz:
            refused.append(Rejection.CLOCK_OUT_OF_RANGE)
        else:
            kept.append(sample)
    return kept, refused
