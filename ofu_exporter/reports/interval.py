"""Finds the interval that a report covers, on both clocks, or why it has none; pure."""

from __future__ import annotations

from typing import NamedTuple

from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.job_state import RECENT_SECONDS
from ofu_exporter.reports.coverage import SLACK_SECONDS
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.reasons import ReportRejection

FIRST_SECONDS = 60.0
"""Length of the interval of a first report that has no start."""
AHEAD_SECONDS = 5.0
"""Most that the clock of the sender may be ahead of this node's."""


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
) -> Interval:
    """The interval of a report.

    `reported_until` is the end of the job's last report on the monotonic clock, and `last_end` the Unix time that this
    report gave for its end. `began` is the Unix time at which the job was first seen; a first report covers nothing
    before it. Raises ReportError for an interval in the future, too long ago, or of time that was already reported.
    """
    unix_end = now.unix if report.end is None else report.end
    for field, at in (("end", unix_end), ("start", report.start or 0.0)):
        if at > now.unix + AHEAD_SECONDS:
            detail = f"is {at - now.unix:.0f} s in the future"
            raise ReportError(ReportRejection.IN_FUTURE, field, detail)
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
        start = max(end - FIRST_SECONDS, now.at_unix(began or 0.0).monotonic)
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
    return Interval(start, end, unix_end - (end - start), unix_end)


def _overlap(field: str, ahead: float) -> ReportError:
    detail = (
        f"is {max(0.0, -ahead):.1f} s before the end of the job's report before: two processes report, "
        "or one report was sent twice"
    )
    return ReportError(ReportRejection.OVERLAP, field, detail)
