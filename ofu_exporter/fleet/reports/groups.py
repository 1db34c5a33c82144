"""Adds jobs up: by user, account, GPU model and so on, by size, by day, and by how far their reports are from OFU."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.history.fleet_history import FleetHistory, JobHistory, JobSums
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.served_sums import PricedServed, served_columns
from ofu_exporter.fleet.hours import DAY
from ofu_exporter.fleet.reports.job_rows import is_flagged, iso, sums_of, times, wasted_of
from ofu_exporter.fleet.reports.result import (
    NOT_KNOWN,
    Agreement,
    By,
    DayRow,
    GroupRow,
    JobRow,
    SizeRow,
)
from ofu_exporter.support.percent import ratio
from ofu_exporter.values.losses import known_sum

_MOST_SIZES = 24
"""With more sizes than these, the table has powers of two."""


class RatedJob(NamedTuple):
    history: JobHistory
    row: JobRow


def group_row(
    name: str, jobs: Sequence[RatedJob], target: float | None, *, is_named: bool
) -> GroupRow:
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
            **served_columns(served_of(jobs)),
            "cost": known_sum(row.cost for row in rows),
            "wasted_cost": known_sum(row.wasted_cost for row in rows),
            "idle_cost": known_sum(row.idle_cost for row in rows),
            "recoverable_gpu_hours": known_sum(row.recoverable_gpu_hours for row in rows),
            "recoverable_cost": known_sum(row.recoverable_cost for row in rows),
        }
    )


def served_of(jobs: Iterable[RatedJob]) -> Iterator[PricedServed]:
    """What those of the jobs served that serve."""
    for job in jobs:
        if job.history.served is not None:
            price = None if job.row.cost is None else ratio(job.row.cost, job.row.held_gpu_hours)
            yield PricedServed(job.history.served, price)


def groups_by(jobs: Sequence[RatedJob], by: By, target: float | None) -> list[GroupRow]:
    """One row for each name, those with most held GPU-hours first."""
    named: dict[str | None, list[RatedJob]] = defaultdict(list)
    for job in jobs:
        name = _job_name(job) if by == "job" else getattr(job.row, by)
        named[name or None].append(job)
    rows = [
        group_row(NOT_KNOWN if name is None else name, members, target, is_named=name is not None)
        for name, members in named.items()
    ]
    return sorted(rows, key=lambda row: (-row.held_gpu_hours, row.name, row.is_named))


def _job_name(job: RatedJob) -> str:
    """Its id, with the user where another user's job had it before."""
    user = job.history.key.user
    return f"{job.row.shown_name} of {user}" if user else job.row.shown_name


Pairs = Sequence[tuple[float, float]]
"""MFU and OFU of jobs, each over the same seconds, 0..1."""


def agreement(pairs: Pairs) -> Agreement:
    """The statistics of some jobs; all but their number is None where there are none."""
    errors = [abs(mfu - ofu) for mfu, ofu in pairs]
    return Agreement(
        jobs=len(pairs),
        mean_mfu=mean([mfu for mfu, _ in pairs]),
        mean_ofu=mean([ofu for _, ofu in pairs]),
        pearson=pearson(pairs),
        mean_absolute_error=mean(errors),
        within_2_points=mean([error <= 0.02 for error in errors]),
        within_5_points=mean([error <= 0.05 for error in errors]),
        within_10_points=mean([error <= 0.10 for error in errors]),
        beyond_20_points=mean([error > 0.20 for error in errors]),
    )


def mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """The sample's standard deviation; None below two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def pearson(pairs: Pairs) -> float | None:
    """The correlation; None where it has no meaning."""
    if len(pairs) < 3:
        return None
    try:
        return statistics.correlation(*zip(*pairs, strict=True))
    except statistics.StatisticsError:  # one of them does not vary
        return None


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
    return [_size_row(f"{1 << n}-{(2 << n) - 1}" if n else "1", powers[n]) for n in sorted(powers)]


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


GroupDay = tuple[int, str, str, str]
"""Day since 1970, cluster, account and model."""


def days(
    history: FleetHistory, jobs: Sequence[RatedJob], target: float | None, prices: Prices
) -> list[DayRow]:
    by_place: dict[GroupDay, list[tuple[JobSums, float | None]]] = defaultdict(list)
    for job in jobs:
        is_priced = prices.of_mix(job.history.models) is not None
        for day, sums in job.history.days.items():
            for model, share in _shares(job.history).items():
                place = (day, job.row.cluster, job.row.account, model)
                price = prices.of(model) if is_priced else None
                by_place[place].append((sums.scaled(share), price))
    held_rows = [_held(place, by_place[place], target) for place in sorted(by_place)]
    rows = [*held_rows, *_free(history, jobs, prices)]
    return sorted(
        rows, key=lambda row: (row.day, row.cluster, row.kind, row.account, row.model or "")
    )


def _shares(job: JobHistory) -> dict[str, float]:
    """The models of a job's GPUs by the share that each is of them; the model is empty where it is not known."""
    weight = sum(job.models.values())
    return {model: gpus / weight for model, gpus in job.models.items()} if weight else {"": 1.0}


def _held(
    place: GroupDay, members: Sequence[tuple[JobSums, float | None]], target: float | None
) -> DayRow:
    total = JobSums()
    for sums, _ in members:
        total.add(sums)
    day, cluster, account, model = place
    return DayRow(
        day=iso(DAY * day)[:10],
        kind="held",
        cluster=cluster,
        account=account,
        model=model or None,
        gpu_hours=total.held,
        observed_gpu_hours=total.observed,
        idle_gpu_hours=total.idle,
        effective_gpu_hours=total.utilized,
        wasted_gpu_hours=wasted_of(total, target),
        cost=known_sum(times(sums.held, price) for sums, price in members),
        wasted_cost=known_sum(times(wasted_of(sums, target), price) for sums, price in members),
    )


def _by_cluster(
    hours: Iterable[tuple[tuple[int, str, str], float]],
) -> dict[tuple[int, str], float]:
    """Hours of models, added up by day and cluster."""
    sums: dict[tuple[int, str], float] = defaultdict(float)
    for (day, cluster, _), each in hours:
        sums[day, cluster] += each
    return sums


def _free(history: FleetHistory, jobs: Sequence[RatedJob], prices: Prices) -> Iterator[DayRow]:
    """What no job held. A day of a cluster on which a job had GPUs of an unknown model has no such rows."""
    held_hours: dict[tuple[int, str, str], float] = defaultdict(float)
    unknown: set[tuple[int, str]] = set()
    for job in jobs:
        for day, sums in job.history.days.items():
            for model, share in _shares(job.history).items():
                held_hours[day, job.row.cluster, model] += sums.held * share
                if not model:
                    unknown.add((day, job.row.cluster))
    free_of = {place: sums.installed - held_hours[place] for place, sums in history.models.items()}
    over = _by_cluster((place, -hours) for place, hours in free_of.items() if hours < 0)
    left = _by_cluster((place, hours) for place, hours in free_of.items() if hours > 0)
    for (day, cluster, model), whole in sorted(history.models.items()):
        free = free_of[day, cluster, model]
        if free > 0 and (day, cluster) not in unknown:
            # how many hours of each model a job had is known of its whole time, and not of each day
            free *= max(0.0, 1 - over[day, cluster] / left[day, cluster])
            yield DayRow(
                day=iso(DAY * day)[:10],
                kind="free",
                cluster=cluster,
                account="",
                model=model or None,
                gpu_hours=free,
                observed_gpu_hours=whole.jobless.observed or None,
                idle_gpu_hours=whole.jobless.idle if whole.jobless.observed else None,
                effective_gpu_hours=whole.jobless.utilized if whole.jobless.observed else None,
                wasted_gpu_hours=None,
                cost=times(free, prices.of(model)),
                wasted_cost=None,
            )
