"""Tells by how much the clock was set between two agents, by a clock that nobody sets: that since the node's boot.

A job's time between two agents is counted by Unix times. What the clock was set by is no time of a job.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.values.instant import Span
from ofu_exporter.values.progress import Fall, Progress, Recovery, RunLine, Unsure

TupleT = TypeVar("TupleT", RunLine, Fall, Recovery, Span, Unsure)

_RUN_TIMES = ("began", "ended", "worked_since")
LEAST_SECONDS = 1.0
"""A smaller difference is how exactly two clocks are read one after the other."""


class ClockMark(NamedTuple):
    """One instant on both clocks."""

    boot: str
    """The boot's id; "" where that is not known."""
    uptime: float
    """Seconds since this boot."""
    unix: float


def set_by(before: ClockMark, now: ClockMark) -> float:
    """By how many seconds the clock was set from one instant to a later one, as far as that can be known.

    In one boot the time between the two is known. Over a boot only this is: the first was before the boot.
    """
    passed = now.uptime - before.uptime
    if before.boot and before.boot == now.boot and passed >= 0:
        seconds = now.unix - passed - before.unix
        return seconds if abs(seconds) >= LEAST_SECONDS else 0.0
    latest = (
        now.unix - now.uptime if before.boot and now.boot and before.boot != now.boot else now.unix
    )
    return min(0.0, latest - before.unix)


def moved(job: JobTotals, seconds: float, unix: float) -> JobTotals:
    """A job as if the clock had been set before it, and with no end ahead of now. `began` names its row and stays."""

    def at(time: float | None) -> float | None:
        return None if time is None or math.isnan(time) else min(time + seconds, unix)

    if not seconds and job.updated <= unix:
        return job
    runs = tuple(
        run.model_copy(update={name: at(getattr(run, name)) for name in _RUN_TIMES})
        for run in job.runs
    )
    times = {name: at(getattr(job, name)) for name in ("updated", "ended", "held_since")}
    starts = tuple((at(since), at(until)) for since, until in job.starts)
    reported = job.reported and _moved_reports(job.reported, at)
    return job.model_copy(update={**times, "runs": runs, "starts": starts, "reported": reported})


At = Callable[[float | None], float | None]
"""What a Unix time, or none, becomes."""


def _moved_reports(reported: ReportedMfu, at: At) -> ReportedMfu:
    trace = reported.trace and replace(reported.trace, at=at(reported.trace.at) or 0.0)
    progress = reported.progress and _moved_progress(reported.progress, at)
    return replace(reported, last=at(reported.last), trace=trace, progress=progress)


def _moved_progress(progress: Progress, at: At) -> Progress:
    def moved(one: TupleT, *names: str) -> TupleT:
        times: dict[str, Any] = {name: at(getattr(one, name)) for name in names}
        return one._replace(**times)

    unsure = (moved(each, "start", "end") for each in progress.unsure)
    return replace(
        progress,
        lines={run: moved(line, "at") for run, line in progress.lines.items()},
        stopped=at(progress.stopped),
        until=at(progress.until),
        told=at(progress.told),
        fall=progress.fall and moved(progress.fall, "start", "end", "since"),
        recoveries=tuple(moved(each, "at", "recovered", "resumed") for each in progress.recoveries),
        again=tuple(moved(each, "start", "end") for each in progress.again),
        unsure=tuple(each for each in unsure if each.start < each.end),
    )
