"""Adds jobs up: by user, account, partition, GPU model, namespace or cluster, by size, and by day."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.reports.agreement import deviation, mean
from ofu_exporter.fleet.reports.job_rows import is_flagged, sums_of, times, wasted_of
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.result import By, DayRow, GroupRow, JobRow, SizeRow
from ofu_exporter.fleet.reports.sums import JobHistory, JobSums, ratio

NOT_SAID = "(not known)"
_MOST_SIZES = 24
"""With more sizes than these, the table has powers of two."""


class RatedJob(NamedTuple):
    """A job's history and its row."""

    history: JobHistory
    row: JobRow


def group_row(name: str, jobs: Sequence[RatedJob], target: float | None) -> GroupRow:
    """The sums of some jobs. Costs are of those whose price is known."""
    sums, priced = JobSums(), 0.0
    for job in jobs:
        sums.add(job.history.total)
        priced += job.row.held_gpu_hours if job.row.cost is not None else 0.0
    rows = [job.row for job in jobs]
    return GroupRow(
        name=name,
        jobs=len(jobs),
        flagged_jobs=sum(map(is_flagged, rows)),
        priced_ratio=ratio(priced, sums.held),
        **{
            **sums_of(sums, target, None),
            "cost": _known(row.cost for row in rows),
            "wasted_cost": _known(row.wasted_cost for row in rows),
            "idle_cost": _known(row.idle_cost for row in rows),
        },
    )


def groups_by(jobs: Sequence[RatedJob], by: By, target: float | None) -> list[GroupRow]:
    """One row for each name, those with most held GPU-hours first."""
    named: dict[str, list[RatedJob]] = defaultdict(list)
    for job in jobs:
        named[_name(job.row, by)].append(job)
    rows = [group_row(name, members, target) for name, members in named.items()]
    return sorted(rows, key=lambda row: (-row.held_gpu_hours, row.name))


def _name(row: JobRow, by: By) -> str:
    if by == "job":
        return f"{row.cluster}/{row.job_id}" if row.cluster else row.job_id
    return str(getattr(row, by) or NOT_SAID)


def _known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def sizes(rows: Sequence[JobRow]) -> list[SizeRow]:
    """Jobs that report, by their number of GPUs."""
    found: dict[int, list[JobRow]] = defaultdict(list)
    for row in rows:
        if row.error is not None and row.gpus is not None:
            found[max(1, round(row.gpus))].append(row)
    if len(found) <= _MOST_SIZES:
        return [_size_row(str(gpus), found[gpus]) for gpus in sorted(found)]
    powers: dict[int, list[JobRow]] = defaultdict(list)
    for gpus, members in found.items():
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


def days(jobs: Sequence[RatedJob], target: float | None, prices: Prices) -> list[DayRow]:
    """One row for each day, cluster, account and model."""
    found: dict[tuple[int, str, str, str], list[tuple[JobSums, float | None]]] = defaultdict(list)
    for job in jobs:
        price = prices.of_mix(job.history.models)
        for day, sums in job.history.days.items():
            key = (day, job.row.cluster, job.row.account, job.row.model or "")
            found[key].append((sums, price))
    return [_day_row(key, found[key], target) for key in sorted(found)]


def _day_row(
    key: tuple[int, str, str, str],
    members: Sequence[tuple[JobSums, float | None]],
    target: float | None,
) -> DayRow:
    total = JobSums()
    for sums, _ in members:
        total.add(sums)
    day, cluster, account, model = key
    return DayRow(
        day=(datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat(),
        cluster=cluster,
        account=account,
        model=model or None,
        held_gpu_hours=total.held,
        observed_gpu_hours=total.observed,
        idle_gpu_hours=total.idle,
        effective_gpu_hours=total.utilized,
        wasted_gpu_hours=wasted_of(total, target),
        cost=_known(times(sums.held, price) for sums, price in members),
        wasted_cost=_known(times(wasted_of(sums, target), price) for sums, price in members),
    )
