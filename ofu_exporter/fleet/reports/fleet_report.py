"""Makes the report over a fleet from its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ofu_exporter.fleet.answer import AskedTime, ClusterRow, ReadingCost
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.fleet_history import AbsentNode, FleetHistory, JobSums
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.served_sums import served_models
from ofu_exporter.fleet.reports import groups
from ofu_exporter.fleet.reports.chain import chain, chain_notes, progress_of, progress_rows
from ofu_exporter.fleet.reports.funnel import (
    PricedJobs,
    funnel,
    installed,
    no_job_row,
    outside_jobs,
    waterfall,
)
from ofu_exporter.fleet.reports.job_rows import is_flagged, iso, job_row, missing_rows
from ofu_exporter.fleet.reports.notes import notes, report_headline
from ofu_exporter.fleet.reports.reachable import with_recoverable
from ofu_exporter.fleet.reports.restarts import restart_rows
from ofu_exporter.fleet.reports.result import (
    ALL_JOBS,
    By,
    FleetReport,
    GroupRow,
    HourRow,
    JobRow,
)
from ofu_exporter.fleet.reports.sweeps import sweeps
from ofu_exporter.fleet.reports.words import away_words
from ofu_exporter.support.percent import percent, ratio


class ReportOptions(NamedTuple):
    by: By
    prices: Prices
    target: float | None = None
    """The OFU to count waste against; that of the recording rules where it is None."""

    def target_of(self, history: FleetHistory) -> float | None:
        return history.target if self.target is None else self.target


def fleet_report(
    history: FleetHistory,
    wanted: ReportOptions,
    reader: ChunkReader,
    jobs: list[groups.RatedJob] | None = None,
) -> FleetReport:
    """The report, with what was read of how much, and at what cost; of `jobs` that somebody has rated already."""
    target = wanted.target_of(history)
    jobs = with_recoverable(rated_jobs(history, wanted) if jobs is None else jobs, target)
    rows = sorted((job.row for job in jobs), key=lambda row: (-row.held_gpu_hours, row.job_id))
    total = groups.group_row(ALL_JOBS, jobs, target, is_named=False)
    of_jobs = PricedJobs(jobs, wanted.prices)
    rest = outside_jobs(history.models, wanted.prices, of_jobs.of("held"), total)
    whole = installed(history.models, wanted.prices)
    steps = funnel(whole, of_jobs, rest)
    progress = progress_of(history, jobs, wanted.prices)
    factors, of_progress = chain(whole, of_jobs.of("held"), progress), progress_rows(progress)
    clusters = [cluster_row(history, cluster) for cluster in history.clusters]
    effective = total.effective_gpu_hours + (rest.effective.gpu_hours or 0.0)
    too_much = list(contradictions(history))
    remarks = [*too_much, *away_words(rows)]
    remarks += notes(history, (total, rest), clusters, wanted.prices, target, reader.client.cost)
    if not history.remark:
        remarks += chain_notes(factors, of_progress, bool(history.raw))
    return FleetReport(
        **_of_reading(reader),
        mark=history.mark.strip(),
        headline=history.mark + report_headline(steps, total, wanted.prices.currency),
        time=_time(history, clusters),
        clusters=clusters,
        currency=wanted.prices.currency,
        target=target,
        chain=factors,
        progress=of_progress,
        restarts=restart_rows(progress, history.clock),
        funnel=steps,
        waterfall=waterfall(steps, of_jobs, total),
        total=total,
        no_job=no_job_row(rest, target),
        ofu=ratio(effective, total.observed_gpu_hours + rest.observed),
        **_of_jobs(history, wanted, jobs, rows, total),
        hours=_hours(history),
        contradictions=too_much,
        notes=remarks,
    )


def _of_jobs(
    history: FleetHistory,
    wanted: ReportOptions,
    jobs: Sequence[groups.RatedJob],
    rows: list[JobRow],
    total: GroupRow,
) -> dict[str, Any]:
    """The fields of the report that are about jobs alone, and groups of them."""
    target = wanted.target_of(history)
    reported = sum(row.observed_gpu_hours for row in rows if row.compared_gpu_hours > 0)
    unflagged = _pairs(row for row in rows if not is_flagged(row))
    return {
        "reporting_ratio": ratio(reported, total.observed_gpu_hours),
        "agreement": groups.agreement(_pairs(rows)),
        "agreement_without_flagged": groups.agreement(unflagged),
        "sizes": groups.sizes(rows),
        "by": wanted.by,
        "groups": groups.groups_by(jobs, wanted.by, target),
        "jobs": rows,
        "sweeps": sweeps(jobs, target),
        "days": groups.days(history, jobs, target, wanted.prices),
        "served_models": served_models(groups.served_of(jobs)),
    }


def rated_jobs(history: FleetHistory, wanted: ReportOptions) -> list[groups.RatedJob]:
    """Jobs with their rows; one that ended as the time began is still shown then, and is none of it."""
    target = wanted.target_of(history)
    jobs = (job for _, job in sorted(history.jobs.items()) if job.had_gpus)
    return [
        groups.RatedJob(job, job_row(job, history.clock, target, wanted.prices)) for job in jobs
    ]


def _of_reading(reader: ChunkReader) -> dict[str, Any]:
    """The fields of the report that are about the server, and what was read of it."""
    cost = reader.client.cost
    seconds = round(cost.seconds, 3)
    return {
        "server": reader.client.shown_url,
        "tenant": reader.client.tenant,
        "missing": missing_rows(reader.missing),
        "reading": ReadingCost(queries=cost.queries, seconds=seconds, samples=cost.samples or None),
    }


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
    whole = gpu_hours + sum(node.gpu_hours for node in absent if not node.is_back)
    away = sum(_away_hours(history, node) for node in absent) / whole if gpu_hours else 0.0
    return ClusterRow(
        cluster=cluster,
        gpus=_most(sorted(_gpus(history, cluster))),
        covered_ratio=max(0.0, min(1.0, covered / len(hours)) - away) if hours else 0.0,
        recorded_hours=sum(name == cluster for name, _ in history.recorded),
        raw_hours=sum(name == cluster for name, _ in history.raw),
    )


def _away_hours(history: FleetHistory, absent: AbsentNode) -> float:
    """GPU-hours of a node that others of its cluster were seen in: of the rest, nothing is covered anyway."""
    cluster, shares = absent.cluster, absent.shares.items()
    return absent.gpus * sum(history.away(hour, cluster, share) for hour, share in shares)


def _most(gpus: Sequence[float]) -> float | None:
    """The most in two hours, where there are more: a node that is renamed counts twice in the hour of that."""
    return (gpus[-2] if len(gpus) > 2 else max(gpus, default=0.0)) or None


def _gpus(history: FleetHistory, cluster: str) -> Iterator[float]:
    """How many there were in each hour; a node that came or went within it counts for a part."""
    for (name, hour), gpu_hours in history.gpus.items():
        share = history.covered.get((name, hour), 1.0)
        if name == cluster and share:
            yield gpu_hours / share


_TOO_MUCH = 1.05
"""Held GPU-hours are known to the second, installed ones by looks into the hour."""


def contradictions(history: FleetHistory) -> Iterator[str]:
    """Clusters whose jobs held more GPU-hours than their GPUs had."""
    for cluster in history.clusters:
        held = sum(job.total.held for key, job in history.jobs.items() if key.cluster == cluster)
        there = sum(
            sums.installed for (_, name, _), sums in history.models.items() if name == cluster
        )
        if there and held > _TOO_MUCH * there:
            name = f" of cluster {cluster}" if cluster else ""
            yield (
                f"Jobs{name} held {percent(held / there)} of the GPU-hours of its GPUs, which can only be where jobs "
                "share GPUs: else look for agents that are scraped under two names (docs/fleet.md#scraped-twice)."
            )


def _pairs(rows: Iterable[JobRow]) -> groups.Pairs:
    return [
        (row.mfu, row.ofu_compared)
        for row in rows
        if row.mfu is not None and row.ofu_compared is not None
    ]


def _hours(history: FleetHistory) -> list[HourRow]:
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
