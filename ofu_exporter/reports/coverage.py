"""Finds the interval that a report covers, and keeps the time that all of a job's reports cover with its OFU; pure.

A report is compared with the OFU of its own seconds. The windows of these seconds arrive later than the report. So a
span is summed up again and again until it is settled. From then on only its sums are needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.observed import RECENT_SECONDS, Open, observed, total_sums
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import NOTHING_COMPARED, Compared

SETTLED_AFTER_SECONDS = 65.0
"""Time after which every window of a span has arrived. A window has 30 s at most, and comes up to 30 s late."""
GRAIN_SECONDS = 5.0
"""Spans that follow each other are kept as one up to this length: reports may come 200 times a second."""
SPANS_OF_HORIZON = 120
"""Approximate number of spans in a horizon: settled spans that follow each other are joined."""
SLACK_SECONDS = 1.0
"""Two reports of a job may overlap by this much, because the two clocks are read one after the other. Reports with
pauses between them are kept as one up to this length."""
ADJOINS_SECONDS = 0.05
"""A report that begins so soon after the end of the one before leaves nothing out."""


class ReportedSpan(NamedTuple):
    """A stretch of time that reports cover, on the monotonic clock."""

    start: float
    end: float
    mfu: float
    """Mean reported MFU over the span, against the right peak."""
    seconds: float
    """How much of the span reports cover, without the pauses between reports that were joined."""
    sums: Compared = NOTHING_COMPARED


class Coverage(NamedTuple):
    """The spans that one job's reports cover, and their sums."""

    spans: tuple[ReportedSpan, ...] = ()
    """The spans of the horizon, oldest first, and all that are not settled."""
    life: Compared = NOTHING_COMPARED
    """The sums of every span that is settled."""
    settled: int = 0
    """How many of the spans, from the first on, are settled and part of `life`."""
    settled_sums: Compared = NOTHING_COMPARED
    """The sums of these spans, kept so that a report does not add them up again."""
    reported_until: float | None = None
    """Seconds on the monotonic clock, up to which the job has reported."""
    before: Coverage | None = None
    """That of the run before, while windows of its last spans may arrive; its own `life` is in this one's."""

    @property
    def total(self) -> Compared:
        """The sums of all spans since the first report."""
        earlier = [self.before.total] if self.before else []
        waiting = (span.sums for span in self.spans[self.settled :])
        return total_sums([self.life, *earlier, *waiting])

    def next_run(self) -> Coverage:
        """The coverage of another run, which goes on with the sums."""
        return Coverage(life=self.life, before=self._replace(life=NOTHING_COMPARED))


def extended(coverage: Coverage, start: float, end: float, mfu: float) -> Coverage:
    """The coverage with one more report, which must not begin before the end of the last one."""
    spans, until = coverage.spans, coverage.reported_until
    if len(spans) > coverage.settled:
        last = spans[-1]
        adjoins = start - last.end <= ADJOINS_SECONDS
        if end - last.start <= (GRAIN_SECONDS if adjoins else SLACK_SECONDS):
            seconds, mean = _joined(last, mfu, end - max(start, last.end))
            span = ReportedSpan(last.start, end, mean, seconds)
            return coverage._replace(spans=(*spans[:-1], span), reported_until=end)
    if until is not None:
        start = max(start, until)
    span = ReportedSpan(start, end, mfu, end - start)
    return coverage._replace(spans=(*spans, span), reported_until=end)


def summed(
    coverage: Coverage,
    usage: Collection[GpuUsage],
    now: float,
    horizon: float,
    all_spans: bool = True,
) -> Coverage:
    """The coverage with what was observed up to now, and without spans older than the horizon.

    Without `all_spans` only the last two spans are summed up: the usage is the same as at the last call, and with the
    last span the one before may have got another neighbour.
    """
    if coverage.before is not None:
        coverage = _with_run_before(coverage, coverage.before, usage, now)
    before = coverage.spans[: coverage.settled]
    waiting = list(coverage.spans[coverage.settled :])
    for place in range(0 if all_spans else max(len(waiting) - 2, 0), len(waiting)):
        waiting[place] = _summed_up(coverage.spans, coverage.settled + place, usage)
    is_over = bool(before) and before[0].end <= now - horizon
    if not (is_over or (waiting and now - waiting[0].end > SETTLED_AFTER_SECONDS)):
        return coverage._replace(spans=(*before, *waiting))
    life, done = coverage.life, [span for span in before if span.end > now - horizon]
    while waiting and now - waiting[0].end > SETTLED_AFTER_SECONDS:
        life = life.plus(waiting[0].sums)
        _append(done, waiting.pop(0), max(GRAIN_SECONDS, horizon / SPANS_OF_HORIZON))
    recent_sums = total_sums(span.sums for span in done if span.end > now - horizon)
    return coverage._replace(
        spans=(*done, *waiting), life=life, settled=len(done), settled_sums=recent_sums
    )


def _with_run_before(
    coverage: Coverage, before: Coverage, usage: Collection[GpuUsage], now: float
) -> Coverage:
    """The coverage with what was observed up to now of the run before; once that is settled, it is part of `life`."""
    before = summed(before, usage, now, 0.0)
    if before.before or len(before.spans) > before.settled:
        return coverage._replace(before=before)
    return coverage._replace(before=None, life=coverage.life.plus(before.total))


def _summed_up(
    spans: Sequence[ReportedSpan], place: int, usage: Collection[GpuUsage]
) -> ReportedSpan:
    """The span of this place with its sums. In the pauses inside it, as much may have been left out as its mean."""
    span = spans[place]
    before = spans[place - 1].end if place else -math.inf
    after = spans[place + 1].start if place + 1 < len(spans) else math.inf
    open_ends = span.start - before > ADJOINS_SECONDS, after - span.end > ADJOINS_SECONDS
    sums = reported_sums(span.mfu, span.start, span.end, usage, open_ends)
    paused = 1 - span.seconds / (span.end - span.start)
    unknown = sums.edge_seconds + max(0.0, paused) * sums.utilization_seconds
    return span._replace(sums=sums._replace(edge_seconds=unknown))


def _append(done: list[ReportedSpan], span: ReportedSpan, longest: float) -> None:
    """Add a settled span; join it to the last one as long as both together are short."""
    last = done[-1] if done else None
    if last is None or span.end - last.start > longest:
        done.append(span)
        return
    seconds, mean = _joined(last, span.mfu, span.seconds)
    done[-1] = ReportedSpan(last.start, span.end, mean, seconds, last.sums.plus(span.sums))


def _joined(last: ReportedSpan, mfu: float, seconds: float) -> tuple[float, float]:
    """The seconds that reports cover and their mean MFU, when these seconds at this MFU are added to a span."""
    whole = last.seconds + seconds
    return whole, (last.mfu * last.seconds + mfu * seconds) / whole


def reported_sums(
    mfu: float, start: float, end: float, usage: Iterable[GpuUsage], open_ends: Open = (True, True)
) -> Compared:
    """The sums over the seconds of a reported MFU that have been observed until now."""
    sums = observed(usage, start, end, open_ends)
    return sums._replace(mfu_seconds=mfu * sums.gpu_seconds)


def recent(coverage: Coverage, now: float, horizon: float) -> Compared:
    """The sums over the horizon of a coverage that was summed up for the same time."""
    waiting = coverage.spans[coverage.settled :]
    return total_sums(
        [coverage.settled_sums, *(each.sums for each in waiting if each.end > now - horizon)]
    )


def time_mean(coverage: Coverage, now: float, horizon: float) -> float | None:
    """The reported MFU over the time that reports cover, whether OFU was observed then or not."""
    spans = [span for span in coverage.spans if span.end > now - horizon]
    seconds = math.fsum(span.seconds for span in spans)
    return math.fsum(span.mfu * span.seconds for span in spans) / seconds if spans else None


FIRST_SECONDS = 60.0
"""Length of the interval of a first report that has no start."""
AHEAD_SECONDS = 5.0
"""Most that the clock of the sender may be ahead of this node's."""


def not_ahead(field: str, at: float, now: Instant) -> float:
    """A Unix time of a report. Raises ReportError where it is in the future."""
    if at > now.unix + AHEAD_SECONDS:
        detail = f"is {at - now.unix:.0f} s in the future"
        raise ReportError(ReportRejection.IN_FUTURE, field, detail)
    return at


class Interval(NamedTuple):
    """The time that a report covers."""

    start: float
    """Seconds on the monotonic clock."""
    end: float
    unix_start: float
    unix_end: float


def interval_of(
    report: MfuReport,
    reported_until: float | None,
    began: float | None,
    now: Instant,
    last_end: float | None = None,
    event_until: float | None = None,
) -> Interval:
    """The interval of a report.

    `reported_until` is the end of the job's last report on the monotonic clock, and `last_end` the Unix time that this
    report gave for its end; `event_until` is the end of its last event on the monotonic clock. `began` is the Unix time
    at which the job was first seen; a first report covers nothing before it, unless the clock was set back since.
    Raises ReportError for an interval in the future, too long ago, or of time that was already reported.
    """
    unix_end = now.unix if report.end is None else report.end
    not_ahead("end", unix_end, now)
    not_ahead("start", report.start or 0.0, now)
    end = now.at_unix(unix_end).monotonic
    # A time converted between clocks differs in its last digits each time, so a repeated report is found by
    # `last_end`.
    if reported_until is not None and (end <= reported_until or unix_end == last_end):
        raise _overlap("end", end - reported_until)
    if report.start is not None:
        start = now.at_unix(report.start).monotonic
        if reported_until is not None and start < reported_until - SLACK_SECONDS:
            raise _overlap("start", start - reported_until)
    elif reported_until is not None:
        start = max(reported_until, now.monotonic - RECENT_SECONDS)
    else:
        seen = began if began is not None and began <= now.unix else 0.0
        start = max(end - FIRST_SECONDS, now.at_unix(seen).monotonic)
    if report.start is None and event_until is not None and event_until < end:
        start = max(start, event_until)
    _check_order(report, start, end, now)
    return Interval(start, end, unix_end - (end - start), unix_end)


def _check_order(report: MfuReport, start: float, end: float, now: Instant) -> None:
    """Raises ReportError for an interval too long ago, or without length."""
    back = now.monotonic - min(start, end)
    if back > RECENT_SECONDS:
        detail = (
            f"is {back:.0f} s ago; OFU is remembered for {RECENT_SECONDS:.0f} s: report more often"
        )
        oldest = "end" if report.start is None else "start"
        raise ReportError(ReportRejection.TOO_OLD, oldest, detail)
    if end <= start:
        detail = "the interval has no length, or was over before the job was first seen here"
        wrong = "start" if report.end is None and report.start is not None else "end"
        raise ReportError(ReportRejection.OUT_OF_RANGE, wrong, detail)


def _overlap(field: str, ahead: float) -> ReportError:
    detail = (
        f"is {max(0.0, -ahead):.1f} s before the end of the job's report before: two processes report, "
        "or one report was sent twice"
    )
    return ReportError(ReportRejection.OVERLAP, field, detail)
