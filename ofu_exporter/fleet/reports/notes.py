"""Says what of a report over a fleet matters most, how much of it is known, and what is missing: its sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.answer import ClusterRow
from ofu_exporter.fleet.history.fleet_history import AbsentNode, FleetHistory
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history_server import QueryCost
from ofu_exporter.fleet.reports.funnel import Outside, largest_loss
from ofu_exporter.fleet.reports.funnel_rows import FunnelStep
from ofu_exporter.fleet.reports.result import GroupRow
from ofu_exporter.fleet.reports.words import MOST_NAMES
from ofu_exporter.support.percent import percent
from ofu_exporter.values.reading import READ_CLOCK_EXCESS
from ofu_exporter.values.text import first_names

_LOSSES = {
    "free": "idle GPUs without a job",
    "unknown": "GPUs without a job, whose use is not known",
    "unmeasured": "held GPUs whose OFU is not known",
    "idle": "held GPUs that computed nothing",
    "slow": "GPUs that were busy and below their peak",
}
_UNUSED = ("free", "unknown", "unmeasured", "idle")
_WORTH_TELLING = 0.01


NOBODY = "No job held a GPU in this time, as far as is known."


def report_headline(steps: Sequence[FunnelStep], total: GroupRow, currency: str) -> str:
    """What share of the peak was delivered, where most of the rest went, and how many jobs report too much."""
    by_name: dict[str, FunnelStep] = {step.name: step for step in steps}
    effective = by_name["effective"].share
    if effective is None:
        return NOBODY
    is_counted = bool(by_name["installed"].gpu_hours)
    whose, its = (
        ("The fleet delivered", "its") if is_counted else ("The known GPUs delivered", "their")
    )
    text = f"{whose} {percent(effective)} of {its} peak."
    cost, back = by_name["installed"].cost, total.recoverable_cost
    if cost is not None:
        gain = "" if back is None else f"; {back:,.0f} {currency} of that can be had back"
        text += f" The GPU-hours cost {cost:,.0f} {currency}{gain}."
    if total.flagged_jobs:
        jobs = "job reports" if total.flagged_jobs == 1 else "jobs report"
        text += f" {total.flagged_jobs} {jobs} a higher MFU than the hardware allows."
    return f"{text} {largest_losses(steps, total)}".rstrip()


def largest_losses(steps: Sequence[FunnelStep], total: GroupRow) -> str:
    """Where most of the rest of the peak went, and what jobs lost most to; empty where nobody held a GPU."""
    by_name: dict[str, FunnelStep] = {step.name: step for step in steps}
    effective, text = by_name["effective"].share, ""
    if effective is None:
        return text
    losses = {name: by_name[name].share or 0.0 for name in _UNUSED}
    losses["slow"] = max(0.0, (by_name["active"].share or 0.0) - effective)
    largest = max(losses, key=lambda name: losses[name])
    if losses[largest] > 0:
        share = percent(losses[largest])
        text = f"The largest unused part of the peak is {_LOSSES[largest]} ({share}). "
    unclaimed = by_name["unclaimed"].share or 0.0
    if unclaimed >= _WORTH_TELLING:
        text += f"In {percent(unclaimed)} of the GPU-hours GPUs were busy without a known job. "
    return f"{text}{largest_loss(total)}".rstrip()


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
        *_of_clocks(total.observed_gpu_hours + rest.observed),
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
        nodes = first_names([f"{name} ({hours[name]:.1f} h)" for name in named], MOST_NAMES)
        lost = sum(each.gpu_hours for each in absent if each.is_back == is_back)
        yield f"Nodes that were away, for {lost:,.1f} GPU-hours in all: {nodes}. {what}"


def _of_jobs(total: GroupRow, rest: Outside, history: FleetHistory) -> Iterator[str]:
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


def _of_clocks(observed: float) -> Iterator[str]:
    if observed:
        too_high = READ_CLOCK_EXCESS / (1 + READ_CLOCK_EXCESS)
        yield (
            f"Where drivers count no cycles, NVML's SM clock can be {percent(READ_CLOCK_EXCESS)} too high, and "
            f"OFU then {percent(too_high)} of itself: `ofu-exporter validate` measures it on a node."
        )


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
