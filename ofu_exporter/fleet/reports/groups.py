"""Adds jobs up: by user, account, partition, GPU model, framework, namespace or cluster, and by size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ofu_exporter.fleet.reports.agreement import deviation, mean
from ofu_exporter.fleet.reports.job_rows import is_flagged, known_sum, sums_of
from ofu_exporter.fleet.reports.result import ALL_JOBS, NOT_KNOWN, By, GroupRow, JobRow, SizeRow
from ofu_exporter.fleet.reports.sums import JobHistory, JobSums, ratio

_MOST_SIZES = 24
"""With more sizes than these, the table has powers of two."""


class RatedJob(NamedTuple):
    """A job's history and its row."""

    history: JobHistory
    row: JobRow


def all_jobs(jobs: Sequence[RatedJob], target: float | None) -> GroupRow:
    """The sums of all jobs."""
    return _row(ALL_JOBS, jobs, target, is_named=False)


def _row(name: str, jobs: Sequence[RatedJob], target: float | None, *, is_named: bool) -> GroupRow:
    """The sums of some jobs. Costs are of those whose price is known."""
    sums, priced = JobSums(), 0.0
    for job in jobs:
        sums.add(job.history.total)
        priced += job.row.held_gpu_hours if job.row.cost is not None else 0.0
    rows = [job.row for job in jobs]
    return GroupRow.model_validate(
        {
            "name": name,
            "is_named": is_named,
            "jobs": len(jobs),
            "flagged_jobs": sum(map(is_flagged, rows)),
            "priced_ratio": ratio(priced, sums.held),
            **sums_of(sums, target, None),
            "cost": known_sum(row.cost for row in rows),
            "wasted_cost": known_sum(row.wasted_cost for row in rows),
            "idle_cost": known_sum(row.idle_cost for row in rows),
        }
    )


def groups_by(jobs: Sequence[RatedJob], by: By, target: float | None) -> list[GroupRow]:
    """One row for each name, those with most held GPU-hours first."""
    named: dict[str | None, list[RatedJob]] = defaultdict(list)
    for job in jobs:
        named[_name(job.row, by)].append(job)
    rows = [
        _row(NOT_KNOWN if name is None else name, members, target, is_named=name is not None)
        for name, members in named.items()
    ]
    return sorted(rows, key=lambda row: (-row.held_gpu_hours, row.name, row.is_named))


def _name(row: JobRow, by: By) -> str | None:
    if by == "job":
        return row.shown_name
    name = getattr(row, by)
    return str(name) if name else None


def sizes(rows: Sequence[JobRow]) -> list[SizeRow]:
    """Jobs that report, by their number of GPUs."""
    by_size: dict[int, list[JobRow]] = defaultdict(list)
    for row in rows:
        if row.error is not None and row.gpus is not None:
            by_size[max(1, round(row.gpus))].append(row)
    if len(by_size) <= _MOST_SIZES:
        return [_size_row(str(gpus), by_size[gpus]) for gpus in sorted(by_size)]
    powers: dict[int, list[JobRow]] = defaultdict(list)
    for gpus, members in by_size.items():
        powers[gpus.bit_length() - 1] += members
    return [_size_row(f"{1 << n}-{(2 << n) - 1}", powers[n]) for n in sorted(powers)]


def _size_row(gpus: str, rows: Sequence[JobRow]) -> SizeRow:
    mfus = [row.mfu for row in rows if row.mfu is not None]
    errors = [abs(row.error) for row in rows if row.error is not None]
    return SizeRow(
        gpus=gpus,
        jobs=len(rows),
        mfu=mean(mfus),
        mfu_deviation=deviation(mfus),
        ofu=mean([row.ofu_compared for row in rows if row.ofu_compared is not None]),
        absolute_error=mean(errors),
        absolute_error_deviation=deviation(errors),
    )
