"""Makes the report over a fleet from its history, and says what matters most, how much is known and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.answer import AskedTime, ClusterRow, ReadingCost
from ofu_exporter.fleet.parts import PartReader
from ofu_exporter.fleet.prometheus import QueryCost
from ofu_exporter.fleet.reports import groups
from ofu_exporter.fleet.reports.chain import chain, chain_notes, progress_of, progress_rows
from ofu_exporter.fleet.reports.fleet_history import AbsentNode, FleetHistory, JobSums, ratio
from ofu_exporter.fleet.reports.funnel import (
    Outside,
    PricedJobs,
    funnel,
    installed,
    largest_loss,
    no_job_row,
    outside,
    waterfall,
)
from ofu_exporter.fleet.reports.funnel_rows import FunnelStep
from ofu_exporter.fleet.reports.job_rows import is_flagged, iso, job_row, missing_rows
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.reachable import with_recoverable
from ofu_exporter.fleet.reports.restarts import restart_rows
from ofu_exporter.fleet.reports.result import ALL_JOBS, By, FleetReport, GroupRow, HourRow, JobRow
from ofu_exporter.fleet.reports.served_sums import served_models
from ofu_exporter.fleet.reports.sweeps import sweeps
from ofu_exporter.support.percent import percent


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
    reader: PartReader,
    jobs: list[groups.RatedJob] | None = None,
) -> FleetReport:
    """The report, with what was read of how much, and at what cost; of `jobs` that somebody has rated already."""
    cost = reader.client.cost
    target = wanted.target_of(history)
    jobs = with_recoverable(rated(history, wanted) if jobs is None else jobs, target)
    rows = sorted((job.row for job in jobs), key=lambda row: (-row.held_gpu_hours, row.job_id))
    total = groups.group_row(ALL_JOBS, jobs, target, is_named=False)
    of_jobs = PricedJobs(jobs, wanted.prices)
    rest = outside(history.models, wanted.prices, of_jobs.of("held"), total)
    whole = installed(history.models, wanted.prices)
    steps = funnel(whole, of_jobs, rest)
    progress = progress_of(history, jobs, wanted.prices)
    factors, of_progress = chain(whole, of_jobs.of("held"), progress), progress_rows(progress)
    clusters = [cluster_row(history, cluster) for cluster in history.clusters]
    too_much = list(contradictions(history))
    reported = sum(row.observed_gpu_hours for row in rows if row.compared_gpu_hours > 0)
    effective = total.effective_gpu_hours + (rest.effective.gpu_hours or 0.0)
    unflagged = _pairs(row for row in rows if not is_flagged(row))
    more = notes(history, (total, rest), clusters, wanted.prices, target, cost)
    return FleetReport(
        server=reader.client.shown_url,
        tenant=reader.client.tenant,
        headline=history.mark + headline(steps, total, wanted.prices.currency),
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
        reporting_ratio=ratio(reported, total.observed_gpu_hours),
        agreement=groups.agreement(_pairs(rows)),
        agreement_without_flagged=groups.agreement(unflagged),
        sizes=groups.sizes(rows),
        by=wanted.by,
        groups=groups.groups_by(jobs, wanted.by, target),
        jobs=rows,
        sweeps=sweeps(jobs, target),
        days=groups.days(history, jobs, target, wanted.prices),
        served_models=served_models(groups.served_of(jobs)),
        hours=_hours(history),
        missing=missing_rows(reader.missing),
        contradictions=too_much,
        notes=[
            *too_much,
            *more,
            *([] if history.remark else chain_notes(factors, of_progress, bool(history.raw))),
        ],
        reading=_cost(cost),
    )


def rated(history: FleetHistory, wanted: ReportOptions) -> list[groups.RatedJob]:
    """Jobs with their rows; one that ended as the time began is still shown then, and is none of it."""
    target = wanted.target_of(history)
    jobs = (job for _, job in sorted(history.jobs.items()) if job.had_gpus)
    return [
        groups.RatedJob(job, job_row(job, history.clock, target, wanted.prices)) for job in jobs
    ]


def _cost(cost: QueryCost) -> ReadingCost:
    seconds = round(cost.seconds, 3)
    return ReadingCost(queries=cost.queries, seconds=seconds, samples=cost.samples or None)


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
        gpus=_most(sorted(_gpus(history, cluster))),
        covered_ratio=min(1.0, covered / len(hours)) * (1 - away / whole) if hours else 0.0,
        recorded_hours=sum(name == cluster for name, _ in history.recorded),
        raw_hours=sum(name == cluster for name, _ in history.raw),
    )


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


_LOSSES = {
    "free": "idle GPUs without a job",
    "unknown": "GPUs without a job, whose use is not known",
    "unmeasured": "held GPUs whose OFU is not known",
    "idle": "held GPUs that computed nothing",
    "slow": "GPUs that were busy and below their peak",
}
_UNUSED = ("free", "unknown", "unmeasured", "idle")
_WORTH_TELLING = 0.01


def headline(steps: Sequence[FunnelStep], total: GroupRow, currency: str = "") -> str:
    """What share of the peak was delivered, where most of the rest went, and how many jobs report too much."""
    by_name: dict[str, FunnelStep] = {step.name: step for step in steps}
    effective = by_name["effective"].share
    if effective is None:
        return "No job held a GPU in this time, as far as is known."
    is_counted = bool(by_name["installed"].gpu_hours)
    whose, its = (
        ("The fleet delivered", "its") if is_counted else ("The known GPUs delivered", "their")
    )
    text = f"{whose} {percent(effective)} of {its} peak."
    cost, back = by_name["installed"].cost, total.recoverable_cost
    if cost is not None:
        gain = "" if back is None else f"; {back:,.0f} {currency} of that can be had back"
        text += f" The GPU-hours cost {cost:,.0f} {currency}{gain}."
    losses = {name: by_name[name].share or 0.0 for name in _UNUSED}
    losses["slow"] = max(0.0, (by_name["active"].share or 0.0) - effective)
    largest = max(losses, key=lambda name: losses[name])
    if losses[largest] > 0:
        text += f" The largest part of the rest is {_LOSSES[largest]} ({percent(losses[largest])})."
    unclaimed = by_name["unclaimed"].share or 0.0
    if unclaimed >= _WORTH_TELLING:
        text += f" In {percent(unclaimed)} of the GPU-hours GPUs were busy without a known job."
    if total.flagged_jobs:
        jobs = "job reports" if total.flagged_jobs == 1 else "jobs report"
        text += f" {total.flagged_jobs} {jobs} a higher MFU than the hardware allows."
    return f"{text} {largest_loss(total)}".rstrip()


MOST_NODES = 20
"""Nodes that a note names."""
RULES = "helm/ofu-exporter/files/rules/*.yaml"


def notes(
    history: FleetHistory,
    hours: tuple[GroupRow, Outside],
    clusters: Sequence[ClusterRow],
    prices: Prices,
    target: float | None,
    cost: QueryCost,
) -> list[str]:
    """Sentences, the most important first. `hours` are those of all jobs, and those outside of jobs."""
    total, rest = hours
    return [
        *([history.elsewhere] if history.elsewhere else []),
        *_of_rules(history, cost, target),
        *_of_coverage(history, clusters),
        *_of_jobs(total, rest, history),
        *_of_energy_and_prices(total, prices),
        *(f"The server warns: {text}" for text in cost.warnings),
    ]


def _of_rules(history: FleetHistory, cost: QueryCost, target: float | None) -> Iterator[str]:
    if history.remark:
        yield history.remark
    elif history.raw:
        hours = "all hours" if not history.recorded else f"{len(history.raw)} cluster-hours"
        samples = f", {cost.samples:,} samples" if cost.samples else ""
        if history.target is None or history.recorded:
            advice = f"Load {RULES} (docs/rules.md), and reports read one value an hour."
        else:
            advice = "The rules are loaded: the hourly ones run once an hour, and keep hours from then on."
        yield (
            f"The recording rules have no record of {hours}, which were computed from the agents' own series "
            f"({cost.queries} queries{samples}, {cost.seconds:.1f} s of the server). {advice}"
        )
    if target is None:
        yield "The fleet has no target OFU: load the rules' target.yaml, or give --target."


def _of_coverage(history: FleetHistory, clusters: Sequence[ClusterRow]) -> Iterator[str]:
    for row in clusters:
        if row.covered_ratio < 0.999:
            name = f" of cluster {row.cluster}" if row.cluster else ""
            yield f"Data covers {percent(row.covered_ratio)} of the time{name}; nothing is assumed of the rest."
    hours = max((row.covered_ratio for row in clusters), default=0.0) * history.span.hours
    if 0 < hours < 0.25:
        yield f"Only {60 * hours:.0f} minutes are known: shares are rough."
    yield from _of_nodes(history.absent)
    if history.models and not any(sums.installed for sums in history.models.values()):
        yield "The number of installed GPUs is not known: shares are of the known ones."


def _of_nodes(absent: Sequence[AbsentNode]) -> Iterator[str]:
    """Nodes that were away, those with the most GPU-hours first."""
    for is_back, what in (
        (True, "What their counters counted meanwhile is included, unless they restarted."),
        (False, "They did not come back within a day: nothing is known of that time."),
    ):
        hours: dict[str, float] = {}
        for each in absent:
            if each.is_back == is_back:
                name = f"{each.cluster}/{each.node}" if each.cluster else each.node
                hours[name] = hours.get(name, 0.0) + sum(each.shares.values())
        if not hours:
            continue
        named = sorted(hours, key=lambda name: (-hours[name], name))
        some = ", ".join(f"{name} ({hours[name]:.1f} h)" for name in named[:MOST_NODES])
        more = f" and {len(named) - MOST_NODES} more" if len(named) > MOST_NODES else ""
        lost = sum(each.gpu_hours for each in absent if each.is_back == is_back)
        yield f"Nodes that were away, for {lost:,.1f} GPU-hours in all: {some}{more}. {what}"


def _of_jobs(total: GroupRow, rest: Outside, history: FleetHistory) -> Iterator[str]:
    if history.cut:
        most = sorted(history.cut.items(), key=lambda each: -each[1])
        named = ", ".join(f"{key.job_id} (at most {hours:.1f})" for key, hours in most[:MOST_NODES])
        more = f" and {len(most) - MOST_NODES} more" if len(most) > MOST_NODES else ""
        yield f"Jobs that ended while their node was away, with the GPU-hours that are not known: {named}{more}."
    unmeasured = total.held_gpu_hours - total.observed_gpu_hours
    if total.held_gpu_hours and unmeasured > 0.01 * total.held_gpu_hours:
        share = percent(unmeasured / total.held_gpu_hours)
        yield f"OFU was not measured in {share} of the held GPU-hours; it is not counted as 0."
    jobless = sum(sums.jobless.observed for sums in history.models.values())
    if rest.observed - jobless > 0.01 * (total.observed_gpu_hours + rest.observed):
        yield (
            f"Whether GPUs without a job were idle is not known for {rest.observed - jobless:,.0f} measured GPU-hours: "
            "jobs began or ended then, or the rules of hours.yaml were not loaded."
        )
    if history.jobs and not total.compared_gpu_hours and not history.remark:
        yield "No job reported an MFU: see docs/reporting.md."


def _of_energy_and_prices(total: GroupRow, prices: Prices) -> Iterator[str]:
    if total.energy_kwh is not None:
        idle = total.idle_energy_kwh
        least = "" if idle is None else f", at least {idle:,.0f} of them while no kernel ran"
        yield (
            f"The measured GPUs of jobs took {total.energy_kwh:,.0f} kWh{least}. For other parts of the peak no kWh "
            "are given: cards count the energy of a window as a whole."
        )
    if prices.gpu_hour and total.priced_ratio is not None and total.priced_ratio < 0.999:
        yield f"The price of {percent(1 - total.priced_ratio)} of the held GPU-hours is not known."
