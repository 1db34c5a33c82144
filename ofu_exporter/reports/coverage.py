"""What is kept of one job's reports: the time that each covers, and the OFU of the job's GPUs in it; pure.

A report is compared with what was observed in its own seconds. The windows of these seconds arrive later than the
report, so a span is summed up anew until it is settled; from then on only its sums are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ofu_exporter.ofu.job_state import observed
from ofu_exporter.values.job import GpuUsage
from ofu_exporter.values.reported import NOTHING, Compared

SETTLED_AFTER_SECONDS = 65.0
"""By then every window of the time before has arrived: the longest is 30 s, and so is a slow exporter's pace."""
GRAIN_SECONDS = 5.0
"""Spans that follow each other are kept as one up to this length: reports may come 200 times a second."""
PARTS = 120
"""A horizon is remembered in about so many spans: settled ones that follow each other become one."""
SLACK_SECONDS = 1.0
"""Two reports of a job may overlap, or leave a gap that is none, by this much: clocks are read in turn."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time that reports cover, on the monotonic clock."""

    start: float
    end: float
    mfu: float
    """Mean over the time, against the right peak."""
    sums: Compared = NOTHING


@dataclass(frozen=True, slots=True)
class Coverage:
    """The reports of one job."""

    spans: tuple[Span, ...] = ()
    """Those of the horizon, oldest first, and all that are not settled."""
    life: Compared = NOTHING
    """The sums of every span that is settled."""
    settled: int = 0
    """So many of the spans, from the first on, are part of it."""
    reported_until: float | None = None
    """Up to where the job has reported, on the monotonic clock."""

    @property
    def total(self) -> Compared:
        """The sums of all spans so far."""
        return _sum([self.life, *(span.sums for span in self.spans[self.settled :])])


def take(account: Coverage, start: float, end: float, mfu: float) -> Coverage:
    """With a report more, which must not begin before the one before it has ended."""
    spans = account.spans
    if len(spans) > account.settled:
        last = spans[-1]
        follows = start - last.end <= SLACK_SECONDS
        if follows and end - last.start <= GRAIN_SECONDS:
            old, new = last.end - last.start, end - max(start, last.end)
            mean = (last.mfu * old + mfu * new) / (old + new)
            span = Span(last.start, end, mean)
            return replace(account, spans=(*spans[:-1], span), reported_until=end)
    if account.reported_until is not None:
        start = max(start, account.reported_until)
    return replace(account, spans=(*spans, Span(start, end, mfu)), reported_until=end)


def summed(
    account: Coverage, usage: Sequence[GpuUsage], now: float, horizon: float, anew: bool = True
) -> Coverage:
    """With what was observed up to now, and without what is older than the horizon.

    Not `anew`: the usage is the one of the time before, so that the last span alone has to be summed up.
    """
    done = [span for span in account.spans[: account.settled] if span.end > now - horizon]
    waiting = list(account.spans[account.settled :])
    for place in range(0 if anew else max(len(waiting) - 1, 0), len(waiting)):
        span = waiting[place]
        waiting[place] = replace(span, sums=sums_of(span.mfu, span.start, span.end, usage))
    life = account.life
    while waiting and now - waiting[0].end > SETTLED_AFTER_SECONDS:
        life = life.plus(waiting[0].sums)
        _append(done, waiting.pop(0), max(GRAIN_SECONDS, horizon / PARTS))
    return replace(account, spans=(*done, *waiting), life=life, settled=len(done))


def _append(done: list[Span], span: Span, longest: float) -> None:
    """Add a span that is settled; to the last one as long as both together are short."""
    last = done[-1] if done else None
    if last is None or span.end - last.start > longest:
        done.append(span)
        return
    old, new = last.end - last.start, span.end - span.start
    mean = (last.mfu * old + span.mfu * new) / (old + new)
    done[-1] = Span(last.start, span.end, mean, last.sums.plus(span.sums))


def sums_of(mfu: float, start: float, end: float, usage: Iterable[GpuUsage]) -> Compared:
    """What was observed of a reported MFU's seconds so far."""
    seconds, utilization, variance = observed(usage, start, end)
    return Compared(mfu * seconds, utilization, seconds, variance)


def recent(account: Coverage, now: float, horizon: float) -> Compared:
    """The sums over the horizon."""
    return _sum(span.sums for span in account.spans if span.end > now - horizon)


def _sum(sums: Iterable[Compared]) -> Compared:
    return Compared(*map(math.fsum, zip(*sums, strict=True)))


def time_mean(account: Coverage, now: float, horizon: float) -> float | None:
    """The reported MFU over the time that reports cover, whether OFU was observed then or not."""
    spans = [span for span in account.spans if span.end > now - horizon]
    seconds = sum(span.end - span.start for span in spans)
    return sum(span.mfu * (span.end - span.start) for span in spans) / seconds if spans else None
