"""Makes one reading into one window: averages the clock, checks the values and computes OFU."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.ofu import cycles, formula, peak_split
from ofu_exporter.ofu.clock import ClockCurve, ClockMemory, Weighed, clock_curve
from ofu_exporter.ofu.cycles import CycleTrust, CycleVerdict, Expected
from ofu_exporter.values.gpu import ABSURD_CLOCK_HZ, LOWEST_CLOCK_HZ, Rating
from ofu_exporter.values.reading import (
    LONGEST_WINDOW_SECONDS,
    MAX_RATIO,
    SHORTEST_WINDOW_SECONDS,
    ActivitySample,
    ClockSample,
    InnerWindow,
    Reading,
    Window,
)
from ofu_exporter.values.reasons import Reason, Rejection

CLOCK_HEADROOM = 1.1
"""NVML's maximum clock may be off by a few MHz; a clock above this multiple is another field's value."""
TILED_SECONDS = 1e-3
"""The times of a window's samples are rounded, so the samples may cover this many seconds less than the window."""

# A late thread makes a window longer than was asked for; the mean over it is still true.
_ACCEPTED_SECONDS = (0.9 * SHORTEST_WINDOW_SECONDS, 2 * LONGEST_WINDOW_SECONDS)


class Polled(NamedTuple):
    """What the activity and the polled clock say of a window."""

    tensor_active: float
    """Share of the cycles that elapsed in the whole window."""
    pipes: Mapping[str, float]
    sm: float | None
    """SM activity, a share of the same cycles; None = not known."""
    hz: float
    hz_error: float | None
    """Standard errors of the clock and of the OFU; None when unknown."""
    error: float | None


class Outcome(NamedTuple):
    """The result of one reading: a window, why it has no OFU, and every value that was not believed."""

    window: Window | None
    trust: CycleTrust
    reason: Reason | None = None
    detail: str = ""
    rejected: tuple[Rejection, ...] = ()
    clock: ClockMemory | None = None
    """What this window and those before have shown of the clock; the error of the next window uses it."""


def measure(
    reading: Reading,
    rating: Rating | None,
    trust: CycleTrust,
    before: ClockMemory | None = None,
    share: float = 1.0,
) -> Outcome:
    """Check every value of a reading and compute its OFU, which needs a rating.

    An impossible value is never clamped or replaced: it is named in `rejected`, and the window is
    refused when nothing believable is left of what it needs. `before` is the clock of the last outcome,
    `share` the part of a whole GPU that the device counts as.
    """
    length = _length_rejection(reading)
    if length is not None:
        return _untimely(reading, length)
    impossible = _activity_rejection(reading)
    if impossible is not None:
        return _refused(reading, [impossible])
    limit_hz = clock_limit_hz(reading, rating)
    clocks, refused = _believable_clocks(reading.clocks, limit_hz)
    clock = clock_curve(clocks, (reading.start, reading.end), limit_hz, before)
    if clock is None and refused:
        return _refused(reading, refused)
    if reading.tensor_active is None or clock is None or rating is None:
        return _incomplete(reading, clock, refused, share)
    polled, refused_pipes = _polled(reading, rating, clock)
    verdict = cycles.judge(trust, reading.cycles, _expected(reading, rating, polled, limit_hz))
    if verdict.implausible:
        refused_pipes.append(Rejection.CYCLES_IMPLAUSIBLE)
    window = _window(reading, rating, polled, verdict, limit_hz, share)
    window = window._replace(inner=_inner_windows(window, reading, rating, clock))
    window, refused_activity = peak_split.split(
        window, rating.links, rating.memory_bytes_per_second
    )
    return Outcome(
        window=window,
        trust=verdict.trust,
        rejected=(*refused, *refused_pipes, *refused_activity),
        clock=clock.memory,
    )


def _incomplete(
    reading: Reading, clock: ClockCurve | None, refused: list[Rejection], share: float
) -> Outcome:
    """A window with what was measured, and the reason why that makes no OFU."""
    span = reading.start, reading.end
    window = Window(
        start=reading.start,
        end=reading.end,
        tensor_active=reading.tensor_active,
        pipes=_believable_pipes(reading)[0],
        sm_clock_hz=clock.cycles([span])[0] / (reading.end - reading.start) if clock else None,
        share=share,
        clock_limits=reading.clock_limits,
    )
    reason = Reason.UNKNOWN_MODEL if clock else Reason.NO_CLOCK
    if reading.tensor_active is None:
        reason = Reason.NO_TENSOR_COUNTER
    return Outcome(window, CycleTrust(reading.cycles), reason, rejected=tuple(refused))


def clock_limit_hz(reading: Reading, rating: Rating | None) -> float:
    """The highest SM clock that is believed of this card."""
    of_model = rating.max_sm_clock_hz if rating else None
    limits = [hz for hz in (reading.gpu.max_sm_clock_hz, of_model) if hz]
    return CLOCK_HEADROOM * max(limits) if limits else ABSURD_CLOCK_HZ


def _polled(reading: Reading, rating: Rating, clock: ClockCurve) -> tuple[Polled, list[Rejection]]:
    """What activity and polled clock say: each sample of the window is multiplied by the clock of its own time."""
    believed, refused = _believable_pipes(reading)
    samples = _samples(reading, believed)
    seconds = reading.end - reading.start
    *elapsed, cycles = clock.cycles([*(each[:2] for each in samples), (reading.start, reading.end)])
    all_seconds = math.fsum(elapsed)

    def share(activity: Iterable[float]) -> float:
        return math.fsum(map(operator.mul, activity, elapsed)) / all_seconds

    per_hz = [_per_hz(each.tensor_active, each.pipes, rating) for each in samples]
    cycles_error = clock.error([Weighed(reading.start, reading.end, 1.0)])
    if len(samples) == 1:  # all cycles weigh the same
        error = None if cycles_error is None else cycles_error * per_hz[0]
    else:
        weights = zip(samples, per_hz, strict=True)
        error = clock.error([Weighed(each.start, each.end, weight) for each, weight in weights])
    polled = Polled(
        tensor_active=share([each.tensor_active for each in samples]),
        pipes={name: share([each.pipes[name] for each in samples]) for name in believed},
        sm=_sm(samples, share) if reading.samples else reading.activity.sm,
        hz=cycles / seconds,
        hz_error=_over(cycles_error, seconds),
        error=_over(error, seconds),
    )
    return polled, refused


def _inner_windows(
    window: Window, reading: Reading, rating: Rating, clock: ClockCurve
) -> tuple[InnerWindow, ...]:
    """How the OFU of a window lay in it, by the activity of its samples and the clock of their time."""
    samples = reading.shape or reading.samples
    values = [each.tensor_active for each in samples]
    if len(samples) < 2 or any(map(_ratio_rejection, values)) or not _are_whole(samples, reading):
        return ()
    elapsed = clock.cycles([each[:2] for each in samples])
    used = [
        _per_hz(each.tensor_active, each.pipes, rating) * cycles
        for each, cycles in zip(samples, elapsed, strict=True)
    ]
    whole = (window.utilization or 0.0) * window.seconds
    scale = whole / math.fsum(used) if math.fsum(used) else 0.0
    return tuple(
        InnerWindow(each.end, scale * weight / (each.end - each.start))
        for each, weight in zip(samples, used, strict=True)
    )


def _sm(
    samples: Sequence[ActivitySample], share: Callable[[Iterable[float]], float]
) -> float | None:
    """The SM activity as a share of cycles, as the tensor activity is one."""
    measured = [each.sm for each in samples if each.sm is not None]
    return share(measured) if len(measured) == len(samples) else None


def _samples(reading: Reading, believed: Mapping[str, float]) -> list[ActivitySample]:
    """The samples of a window, with the pipes that are believed. Samples that leave some of it out are not used."""
    if not _are_whole(reading.samples, reading):
        whole = reading.tensor_active or 0.0
        return [ActivitySample(reading.start, reading.end, whole, believed, reading.activity.sm)]
    return [
        sample._replace(pipes={name: sample.pipes[name] for name in believed})
        for sample in reading.samples
    ]


def _are_whole(samples: Iterable[ActivitySample], reading: Reading) -> bool:
    """Whether samples cover a window."""
    covered = math.fsum([each.end - each.start for each in samples])
    return abs(covered - (reading.end - reading.start)) <= TILED_SECONDS


def _over(error: float | None, seconds: float) -> float | None:
    return None if error is None else error / seconds


def _per_hz(tensor_active: float, pipes: Mapping[str, float], rating: Rating) -> float:
    """The OFU for each hertz of the SM clock."""
    domains = formula.activity_by_domain(tensor_active, pipes)
    return formula.utilization_over_domains(domains, 1.0, rating.tensor_clock_hz)


def _expected(reading: Reading, rating: Rating, polled: Polled, limit_hz: float) -> Expected:
    activity = [sample.tensor_active for sample in reading.samples] or [polled.tensor_active]
    return Expected(
        seconds=reading.end - reading.start,
        tensor_active=(min(activity), max(activity)),
        sm_clock_hz=polled.hz,
        clock_error_hz=polled.hz_error,
        clock_limit_hz=limit_hz,
        sm_count=reading.gpu.sm_count or (None if reading.gpu.instance else rating.sm_count),
        edge_seconds=reading.edge_seconds,
    )


def _window(
    reading: Reading,
    rating: Rating,
    polled: Polled,
    verdict: CycleVerdict,
    limit_hz: float,
    share: float,
) -> Window:
    """The window, by the cycle counters where these are known better than the polled clock."""
    hz, active, cut = polled.hz, polled.tensor_active, reading.cut_seconds
    method, stderr = "point" if polled.error is None else "polled", polled.error
    if verdict.sm_clock_hz and verdict.tensor_active is not None and _is_better(verdict, polled):
        hz, active, cut, method = verdict.sm_clock_hz, verdict.tensor_active, 0.0, "cycles"
        stderr = verdict.error_ratio * _per_hz(active, polled.pipes, rating) * hz
    per_hz = _per_hz(active, polled.pipes, rating)
    if stderr is not None:
        highest = _per_hz(1.0, {}, rating) * limit_hz
        ends = max(cut, reading.edge_seconds) / (reading.end - reading.start)
        stderr = math.hypot(stderr, _edge_error(per_hz * hz, highest, ends, method == "cycles"))
    return Window(
        start=reading.start,
        end=reading.end,
        tensor_active=active,
        pipes=polled.pipes,
        sm_clock_hz=hz,
        utilization=per_hz * hz,
        stderr=stderr,
        clock_method=method,
        share=share,
        clock_limits=reading.clock_limits,
        activity=reading.activity._replace(sm=polled.sm),
    )


def _is_better(verdict: CycleVerdict, polled: Polled) -> bool:
    return polled.hz_error is None or verdict.error_ratio < polled.hz_error / polled.hz


def _edge_error(utilization: float, highest: float, ends: float, is_counted: bool) -> float:
    """Standard error of the OFU of a window whose two ends are known to this share of its length.

    Nobody knows what the GPU did there. Counted cycles are wrong by all that it did, a mean by what differs from it,
    and both most if the OFU of an instant is always 0 or the highest. The window itself may lack as much.
    """
    if not utilization:
        return 0.0
    likely = min(utilization + ends * highest, highest)
    return ends * math.sqrt(2 * likely * (highest if is_counted else highest - likely))


def _refused(reading: Reading, rejected: list[Rejection]) -> Outcome:
    names = ", ".join(rejection.value for rejection in rejected)
    return Outcome(None, CycleTrust(reading.cycles), Reason.IMPOSSIBLE, names, tuple(rejected))


def _untimely(reading: Reading, rejection: Rejection) -> Outcome:
    """The outcome of a window of the wrong length. No value is at fault: the agent or its source was held up."""
    if rejection is Rejection.NOT_A_NUMBER:
        return _refused(reading, [rejection])
    detail = f"a window of {reading.end - reading.start:.3g} s: {rejection.value}"
    return Outcome(None, CycleTrust(reading.cycles), Reason.STALE, detail, (rejection,))


def _length_rejection(reading: Reading) -> Rejection | None:
    shortest, longest = _ACCEPTED_SECONDS
    seconds = reading.end - reading.start
    if not math.isfinite(seconds):
        return Rejection.NOT_A_NUMBER
    if seconds < shortest:
        return Rejection.WINDOW_TOO_SHORT
    return Rejection.WINDOW_TOO_LONG if seconds > longest else None


def _ratio_rejection(value: float | None) -> Rejection | None:
    if value is None or 0.0 <= value <= MAX_RATIO:
        return None
    return Rejection.TENSOR_OUT_OF_RANGE if math.isfinite(value) else Rejection.NOT_A_NUMBER


def _activity_rejection(reading: Reading) -> Rejection | None:
    """Why the tensor activity cannot be true, of the window or of any sample in it."""
    values = [reading.tensor_active, *[sample.tensor_active for sample in reading.samples]]
    return next(filter(None, map(_ratio_rejection, values)), None)


def _believable_pipes(reading: Reading) -> tuple[dict[str, float], list[Rejection]]:
    """The pipes whose ratios can be true, and a rejection for each other pipe: a bad pipe does not cost the window."""
    believed, refused = {}, []
    for pipe, value in reading.pipes.items():
        values = [value, *[sample.pipes.get(pipe, math.nan) for sample in reading.samples]]
        rejection = next(filter(None, map(_ratio_rejection, values)), None)
        if rejection is None:
            believed[pipe] = value
        else:
            refused.append(rejection)
    return believed, refused


def _believable_clocks(
    samples: Sequence[ClockSample], limit_hz: float
) -> tuple[list[ClockSample], list[Rejection]]:
    """The clock reads that can be true, and a rejection for each of the others."""
    believed: list[ClockSample] = []
    refused: list[Rejection] = []
    for sample in samples:
        at, hz = sample
        if LOWEST_CLOCK_HZ <= hz <= limit_hz and math.isfinite(at):
            believed.append(sample)
        elif math.isfinite(hz) and math.isfinite(at):
            refused.append(Rejection.CLOCK_OUT_OF_RANGE)
        else:
            refused.append(Rejection.NOT_A_NUMBER)
    return believed, refused
