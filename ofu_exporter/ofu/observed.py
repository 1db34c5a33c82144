"""Remembers when a job's GPUs were observed, and tells what was observed over some seconds; pure.

Of a span that the ends of these seconds cut, only the whole is known. Where the time beyond the end belongs to the same
sum, it does not matter how the span is divided. Otherwise the job may have done something else there, such as an
evaluation that its report leaves out. So the part inside is taken to be like the next span that lies all inside, as far
as the count of the span itself allows. What else this count allows is the error.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from ofu_exporter.values.job import GpuUsage, ObservedSpan
from ofu_exporter.values.reading import Window
from ofu_exporter.values.reported import Compared

RECENT_SECONDS = 1260.0
"""How long the observed spans of a GPU are remembered: a training step of 20 minutes, as in RL, and a minute."""
FINE_SECONDS = 120.0
"""How long they are remembered as they were measured. Most reports begin and end in this time."""
GRAIN_SECONDS, FINE_GRAIN_SECONDS = 5.0, 0.5
"""Spans that follow each other are remembered as one up to these lengths: the second for the last FINE_SECONDS."""
HIGHEST = 1.3
"""No card of the table has a higher OFU: its highest SM clock over its tensor clock."""
STILL = 0.1
"""A GPU that beyond an end has less than this share of the OFU inside pauses there: all that is counted is inside."""
WHOLE = 1 - 1e-9
"""A part of a span that is all of it but for rounding."""

Open = tuple[bool, bool]
"""Whether the time before the start, and after the end, belongs to something else."""


def spans_of(window: Window, utilization: float) -> list[ObservedSpan]:
    """A window as spans, one for each of its inner windows. An OFU of 0 is exact, whatever the clock was."""
    seconds, hz = window.gpu_seconds, window.sm_clock_hz
    points: tuple[float, ...] = ()
    variance = 0.0
    if window.stderr is not None:
        variance = (window.stderr * seconds) ** 2
    elif utilization and hz:
        points = (seconds, utilization * seconds, 1.0, hz, hz * hz)
    whole = Compared(0.0, utilization * seconds, seconds, variance, *points)
    whole = whole._replace(overstated_seconds=window.overstated * seconds)
    starts = [window.start, *(one.end for one in window.inner[:-1])]
    ends = [*starts[1:], window.end]
    if not window.inner:
        return [ObservedSpan(window.start, window.end, whole)]
    return [
        ObservedSpan(start, end, _share(whole, (end - start) / window.seconds, one.utilization))
        for start, end, one in zip(starts, ends, window.inner, strict=True)
    ]


def _share(whole: Compared, share: float, utilization: float) -> Compared:
    """The sums of an inner window. The errors of inner windows are independent, so its variance is in proportion."""
    inner = whole.scaled(share)
    used = utilization * inner.gpu_seconds
    return inner._replace(utilization_seconds=used, variance=whole.variance * share)


def with_spans(
    recent: Sequence[ObservedSpan], new: Sequence[ObservedSpan]
) -> tuple[ObservedSpan, ...]:
    """The spans of a GPU with newer ones, and without those that are too old."""
    ends = attrgetter("end")
    fine = recent[-1].end - FINE_SECONDS if recent else -math.inf
    first, coarse, ageing = (
        bisect_right(recent, at, key=ends)
        for at in (new[-1].end - RECENT_SECONDS, fine, new[-1].end - FINE_SECONDS)
    )
    old = _joined(recent[first:coarse], recent[max(first, coarse) : ageing], GRAIN_SECONDS)
    return (*old, *_joined(recent[max(first, ageing) :], new, FINE_GRAIN_SECONDS))


def _joined(
    spans: Sequence[ObservedSpan], more: Iterable[ObservedSpan], longest: float
) -> list[ObservedSpan]:
    joined = list(spans)
    for each in more:
        last = joined[-1] if joined else None
        if last and last.end == each.start and each.end - last.start <= longest:
            joined[-1] = ObservedSpan(last.start, each.end, last.sums.plus(each.sums))
        else:
            joined.append(each)
    return joined


def observed(
    usage: Iterable[GpuUsage], start: float, end: float, open_ends: Open = (True, True)
) -> Compared:
    """What was observed on some GPUs from `start` to `end`."""
    return total_sums(each for gpu in usage for each in _of_gpu(gpu.recent, start, end, open_ends))


def total_sums(sums: Iterable[Compared]) -> Compared:
    return Compared(*map(math.fsum, zip(*sums, strict=True)))


def _of_gpu(
    recent: Sequence[ObservedSpan], start: float, end: float, open_ends: Open
) -> Iterator[Compared]:
    first = bisect_right(recent, start, key=attrgetter("end"))
    last = bisect_left(recent, end, first, key=attrgetter("start"))
    for place in range(first, last):
        span = recent[place]
        inside = (min(end, span.end) - max(start, span.start)) / (span.end - span.start)
        if inside >= WHOLE:
            yield span.sums
        elif (span.start < start and open_ends[0]) or (span.end > end and open_ends[1]):
            inwards = 1 if span.start < start else -1
            beside = _ofu(recent, place + inwards, start, end)
            beyond = _ofu(recent, place - inwards, -math.inf, math.inf)
            yield _cut(span.sums, inside, beside, beyond)
        else:
            yield span.sums.scaled(inside)


def _ofu(recent: Sequence[ObservedSpan], place: int, start: float, end: float) -> float | None:
    """The OFU of the span at a place; None if there is none that lies all inside."""
    spans = recent[place : place + 1] if place >= 0 else ()
    return next((each.sums.ofu for each in spans if start <= each.start and each.end <= end), None)


def _cut(whole: Compared, inside: float, beside: float | None, beyond: float | None) -> Compared:
    """The part of a span that lies inside, and its error. `beside` and `beyond` are the OFUs of its neighbours."""
    used, seconds = whole.utilization_seconds, whole.gpu_seconds
    most = max(HIGHEST * seconds, used)
    least, largest = max(0.0, used - most * (1 - inside)), min(used, most * inside)
    likely = inside * (used if beside is None else beside * seconds)
    if beside and beyond is not None and beyond < STILL * beside:
        likely = used
    likely = min(max(likely, least), largest)
    off = math.hypot((largest - least) / math.sqrt(12), likely - (largest + least) / 2)
    return whole.scaled(inside)._replace(utilization_seconds=likely, edge_seconds=off)
