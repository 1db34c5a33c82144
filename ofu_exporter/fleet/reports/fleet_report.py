"""Makes the report over a fleet from its history, and says with it how much is known and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.parts import MissingPart
from ofu_exporter.fleet.prometheus import QueryCost
from ofu_exporter.fleet.reports import groups
from ofu_exporter.fleet.reports.fleet_history import FleetHistory, JobSums, ratio
from ofu_exporter.fleet.reports.funnel import (
    JobHours,
    funnel,
    installed,
    no_job_row,
    outside,
    waterfall,
)
from ofu_exporter.fleet.reports.job_rows import is_flagged, iso, job_row, missing_rows
from ofu_exporter.fleet.reports.notes import headline, notes
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.result import (
    ALL_JOBS,
    AskedTime,
    By,
    ClusterRow,
    FleetReport,
    HourRow,
    JobRow,
    ReadingCost,
)


class ReportOptions(NamedTuple):
    """What a report shall be like."""

    by: By
    prices: Prices
    target: float | None = None
    """The OFU to count waste against; that of the recording rules where it is None."""


class HistorySource(NamedTuple):
    """How the history was come by."""

    server: str
    cost: QueryCost
    missing: Sequence[MissingPart]


def fleet_report(
    history: FleetHistory, wanted: ReportOptions, reading: HistorySource
) -> FleetReport:
    """The report."""
    target = history.target if wanted.target is None else wanted.target
    jobs = [
        groups.RatedJob(job, job_row(job, history.clock, target, wanted.prices))
        for _, job in sorted(history.jobs.items())
    ]
    rows = sorted((job.row for job in jobs), key=lambda row: (-row.held_gpu_hours, row.job_id))
    total = groups.group_row(ALL_JOBS, jobs, target, is_named=False)
    of_jobs = JobHours(jobs, wanted.prices)
    rest = outside(history.models, wanted.prices, of_jobs.of("held"), total)
    steps = funnel(installed(history.models, wanted.prices), of_jobs, rest)
    clusters = [cluster_row(history, cluster) for cluster in history.clusters]
    reported = sum(row.observed_gpu_hours for row in rows if row.compared_gpu_hours > 0)
    return FleetReport(
        server=reading.server,
        headline=history.mark + headline(steps, total, wanted.prices.currency),
        time=_time(history, clusters),
        clusters=clusters,
        currency=wanted.prices.currency,
        target=target,
        funnel=steps,
        waterfall=waterfall(steps, of_jobs, total),
        total=total,
        no_job=no_job_row(rest, target),
        ofu=ratio(
            total.effective_gpu_hours + (rest.effective.gpu_hours or 0.0),
            total.observed_gpu_hours + rest.observed,
        ),
        reporting_ratio=ratio(reported, total.observed_gpu_hours),
        agreement=groups.agreement(_pairs(rows)),
        agreement_without_flagged=groups.agreement(
            _pairs(row for row in rows if not is_flagged(row))
        ),
        sizes=groups.sizes(rows),
        by=wanted.by,
        groups=groups.groups_by(jobs, wanted.by, target),
        jobs=rows,
        days=groups.days(history, jobs, target, wanted.prices),
        hours=_hours(history),
        missing=missing_rows(reading.missing),
        notes=notes(history, (total, rest), clusters, wanted.prices, target, reading.cost),
        reading=ReadingCost(
            queries=reading.cost.queries,
            seconds=round(reading.cost.seconds, 3),
            samples=reading.cost.samples or None,
        ),
    )


def _time(history: FleetHistory, clusters: Sequence[ClusterRow]) -> AskedTime:
    weights = [row.gpus or 1.0 for row in clusters]
    shares = [row.covered_ratio * weight for row, weight in zip(clusters, weights, strict=True)]
    return AskedTime(
        start=iso(history.span.start),
        end=iso(history.span.end),
        hours=history.span.hours,
        covered_ratio=ratio(sum(shares), sum(weights)),
    )


def cluster_row(history: FleetHistory, cluster: str) -> ClusterRow:
    """How much of the asked time is known of a cluster."""
    hours = history.clock.hours(history.span)
    covered = sum(share for (name, _), share in history.covered.items() if name == cluster)
    if not covered:  # of an older history only the hours themselves are known
        covered = float(sum(name == cluster for name, _ in history.recorded | history.raw))
    gpu_hours = sum(
        sums.installed for (_, name, _), sums in history.models.items() if name == cluster
    )
    absent = [node for node in history.absent if node.cluster == cluster]
    away = sum(node.gpu_hours for node in absent)
    whole = (gpu_hours + sum(node.gpu_hours for node in absent if not node.is_back)) or 1.0
    return ClusterRow(
        cluster=cluster,
        gpus=gpu_hours / covered if gpu_hours and covered else None,
        covered_ratio=min(1.0, covered / len(hours)) * (1 - away / whole) if hours else 0.0,
        recorded_hours=sum(name == cluster for name, _ in history.recorded),
        raw_hours=sum(name == cluster for name, _ in history.raw),
    )


def _pairs(rows: Iterable[JobRow]) -> list[groups.Pair]:
    return [
        groups.Pair(row.mfu, row.ofu_compared)
        for row in rows
        if row.mfu is not None and row.ofu_compared is not None
    ]


def _hours(history: FleetHistory) -> list[HourRow]:
    """Every hour of the asked time."""
    measured = {hour for _, hour in history.recorded | history.raw} | history.hours.keys()
    nothing = JobSums()
    return [
        HourRow(
            end=iso(history.clock.end_of(hour)),
            held_gpus=history.hours.get(hour, nothing).held if hour in measured else None,
            ofu=history.hours.get(hour, nothing).ofu,
            no_job_ofu=history.jobless_hours.get(hour, nothing).ofu,
            mfu=history.hours.get(hour, nothing).mfu,
        )
        for hour in history.clock.hours(history.span)
    ]
