"""Adds GPU-hours up by day, cluster, account and GPU model, and names those that no job held."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.reports.fleet_history import FleetHistory
from ofu_exporter.fleet.reports.groups import RatedJob
from ofu_exporter.fleet.reports.job_rows import known_sum, times, wasted_of
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.result import DayRow
from ofu_exporter.fleet.reports.sums import JobSums

Place = tuple[int, str, str, str]
"""Day since 1970, cluster, account and model."""


def days(
    history: FleetHistory, jobs: Sequence[RatedJob], target: float | None, prices: Prices
) -> list[DayRow]:
    """The rows of all days, in order."""
    by_place: dict[Place, list[tuple[JobSums, float | None]]] = defaultdict(list)
    for job in jobs:
        price = prices.of_mix(job.history.models)
        for day, sums in job.history.days.items():
            place = (day, job.row.cluster, job.row.account, job.row.model or "")
            by_place[place].append((sums, price))
    held = [_held(place, by_place[place], target) for place in sorted(by_place)]
    rows = [*held, *_free(history, jobs, prices)]
    return sorted(
        rows, key=lambda row: (row.day, row.cluster, row.kind, row.account, row.model or "")
    )


def _held(
    place: Place, members: Sequence[tuple[JobSums, float | None]], target: float | None
) -> DayRow:
    total = JobSums()
    for sums, _ in members:
        total.add(sums)
    day, cluster, account, model = place
    return DayRow(
        day=_iso(day),
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


def _free(history: FleetHistory, jobs: Sequence[RatedJob], prices: Prices) -> Iterator[DayRow]:
    """What no job held. A day of a cluster on which a job had GPUs of an unknown model has no such rows."""
    held: dict[tuple[int, str, str], float] = defaultdict(float)
    unknown: set[tuple[int, str]] = set()
    for job in jobs:
        weight = sum(job.history.models.values())
        for day, sums in job.history.days.items():
            if not weight:
                unknown.add((day, job.row.cluster))
            for model, share in job.history.models.items():
                held[day, job.row.cluster, model] += sums.held * share / weight
    for (day, cluster, model), whole in sorted(history.models.items()):
        free = whole.installed - held[day, cluster, model]
        if free > 0 and (day, cluster) not in unknown:
            yield DayRow(
                day=_iso(day),
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


def _iso(day: int) -> str:
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()
