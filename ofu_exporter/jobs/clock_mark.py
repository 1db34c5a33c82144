"""Tells by how much the clock was set between two agents, by a clock that nobody sets: that since the node's boot.

A job's time between two agents is counted by Unix times. What the clock was set by is no time of a job.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.jobs.totals import JobTotals

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
    reported = job.reported and replace(job.reported, last=at(job.reported.last))
    return job.model_copy(update={**times, "runs": runs, "starts": starts, "reported": reported})
