"""Makes one line of the jobs that somebody ran under one name many times."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from ofu_exporter.fleet.reports.groups import RatedJob, group_row
from ofu_exporter.fleet.reports.job_rows import longest
from ofu_exporter.fleet.reports.result import FleetReport, JobRow, SweepRow

FEWEST = 3
"""Jobs of one name from which on they are one line."""
_Names = tuple[str, str, str]
"""Cluster, user and name."""


def sweeps(jobs: Sequence[RatedJob], target: float | None) -> list[SweepRow]:
    """A row for each name that somebody gave to many jobs, those with most held GPU-hours first."""
    named: dict[_Names, list[RatedJob]] = defaultdict(list)
    for job in jobs:
        if job.row.job_name:
            named[_names(job.row)].append(job)
    rows = [_row(members, target) for members in named.values() if len(members) >= FEWEST]
    return sorted(rows, key=lambda row: (-row.held_gpu_hours, row.job_id))


def _names(row: JobRow | SweepRow) -> _Names:
    return row.cluster, row.user, row.job_name


def _row(members: Sequence[RatedJob], target: float | None) -> SweepRow:
    first = max((job.row for job in members), key=lambda row: (row.held_gpu_hours, row.job_id))
    sums = group_row(first.job_name, members, target, is_named=True)
    sizes = [job.row.gpus for job in members if job.row.gpus is not None]
    held_by_verdict: dict[str, float] = defaultdict(float)
    for job in members:
        held_by_verdict[job.row.verdict or ""] += job.row.held_gpu_hours
    error = None if sums.mfu is None or sums.ofu_compared is None else sums.mfu - sums.ofu_compared
    return SweepRow(
        **sums.model_dump(),
        cluster=first.cluster,
        user=first.user,
        job_name=first.job_name,
        job_id=first.job_id,
        fewest_gpus=min(sizes, default=None),
        most_gpus=max(sizes, default=None),
        error=error,
        verdict=longest(held_by_verdict) or None,
    )


def lines(report: FleetReport) -> list[JobRow | SweepRow]:
    """The jobs, and in the place of those of a sweep the sweep, by held GPU-hours."""
    of_many = {_names(row) for row in report.sweeps}
    single = [row for row in report.jobs if _names(row) not in of_many]
    return sorted([*single, *report.sweeps], key=lambda row: (-row.held_gpu_hours, row.job_id))


def anchor(report: FleetReport, row: JobRow | SweepRow) -> str:
    """The id of its line on a page, with nothing in it that an address would have to escape."""
    is_reused = (row.cluster, row.job_id) in report.reused_ids
    name = f"{row.shown_name}-{row.user}" if is_reused else row.shown_name
    return "job-" + re.sub(r"[^A-Za-z0-9_.-]", "-", name)


def anchor_of(report: FleetReport, row: JobRow) -> str:
    """The id of the line in which a job is."""
    every = {_names(each): each for each in report.sweeps}
    return anchor(report, every.get(_names(row), row))
