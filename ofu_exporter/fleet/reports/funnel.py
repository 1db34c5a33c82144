"""Divides the installed GPU-hours: held or not, measured or not, idle or active, and what was lost of them to what.

What is measured of GPUs and of no job is in all what the GPUs have beyond their jobs. Whether such a GPU
was busy is known by looks at it alone, so that a part of the hours stays unknown: around the ends of jobs, and before
the rules kept the looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, attrgetter
from typing import NamedTuple

from ofu_exporter.fleet.history.fleet_history import JobSums, ModelSums
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.progress_sums import beyond_rounding
from ofu_exporter.fleet.reports.funnel_rows import FunnelStep, StepName, WaterfallStep
from ofu_exporter.fleet.reports.groups import RatedJob
from ofu_exporter.fleet.reports.job_rows import sums_of, times
from ofu_exporter.fleet.reports.result import NO_JOB, GroupRow, JobRow, SumsRow
from ofu_exporter.support.percent import percent, ratio
from ofu_exporter.values.losses import Loss

Models = Mapping[tuple[int, str, str], ModelSums]
"""By day, cluster and model."""


class PricedHours(NamedTuple):
    """GPU-hours, and what they cost; None where one of both is not known."""

    gpu_hours: float | None
    cost: float | None

    def less(self, other: PricedHours) -> PricedHours:
        """What is left of them, without the rounding of a part that is all of them."""
        return self._with(other, lambda whole, part: max(0.0, beyond_rounding(whole - part, whole)))

    def plus(self, other: PricedHours) -> PricedHours:
        return self._with(other, add)

    def at_most(self, other: PricedHours) -> PricedHours:
        return (
            self if other.gpu_hours is None or other.gpu_hours >= (self.gpu_hours or 0.0) else other
        )

    def _with(self, other: PricedHours, compute: Callable[[float, float], float]) -> PricedHours:
        pairs = zip(self, other, strict=True)
        return PricedHours(*(None if a is None or b is None else compute(a, b) for a, b in pairs))


UNKNOWN = PricedHours(None, None)


class PricedJobs:
    """The GPU-hours of all jobs, those of each at the price of its own GPUs."""

    def __init__(self, jobs: Sequence[RatedJob], prices: Prices) -> None:
        self._priced = [(job.row, prices.of_mix(job.history.models)) for job in jobs]
        self._prices = prices

    def of(self, name: str) -> PricedHours:
        """The sum of a field of SumsRow. Its cost is known where the price of each job's GPUs is."""
        return self.sum(attrgetter(f"{name}_gpu_hours"))

    def sum(self, value: Callable[[JobRow], float | None]) -> PricedHours:
        return _priced(((value(row) or 0.0, price) for row, price in self._priced), self._prices)


class Outside(NamedTuple):
    whole: PricedHours
    observed: float
    """Measured."""
    idle: PricedHours
    """Seen without tensor activity."""
    busy: PricedHours
    """Seen with it, or no less than what was done in them, also by GPUs that jobs shared."""
    effective: PricedHours
    """At the full peak."""


def installed(models: Models, prices: Prices) -> PricedHours:
    """All GPU-hours of GPUs. None where nobody knows how many there are."""
    whole = _of_models(models, prices, lambda sums: sums.installed)
    return whole if whole.gpu_hours else UNKNOWN


def outside_jobs(models: Models, prices: Prices, held: PricedHours, jobs: GroupRow) -> Outside:
    """The hours of these GPUs that jobs did not have."""
    whole = installed(models, prices)
    price = ratio(whole.cost or 0.0, whole.gpu_hours or 0.0) if whole.cost is not None else None
    jobless = _of_models(models, prices, lambda sums: sums.jobless.observed)
    idle = _of_models(models, prices, lambda sums: sums.jobless.idle)
    busy = jobless.less(idle)
    used = _of_models(models, prices, lambda sums: sums.jobless.utilized)
    observed = sum(sums.observed for sums in models.values()) - jobs.observed_gpu_hours
    utilized = sum(sums.utilized for sums in models.values()) - jobs.effective_gpu_hours
    effective = _at_least(used, utilized, price)
    return Outside(
        whole=whole.less(held),
        observed=max(jobless.gpu_hours or 0.0, observed),
        idle=idle,
        busy=_at_least(busy, effective.gpu_hours or 0.0, price),
        effective=effective,
    )


def no_job_row(outside_hours: Outside, target: float | None) -> GroupRow | None:
    """The row of no job; None where jobs had all GPUs, and the OFU of each."""
    whole, cost = outside_hours.whole
    hours = outside_hours.observed if whole is None else whole
    if max(hours, outside_hours.effective.gpu_hours or 0.0) <= 0:
        return None
    sums = JobSums(hours, outside_hours.observed, outside_hours.effective.gpu_hours or 0.0)
    sums.idle = outside_hours.idle.gpu_hours or 0.0
    price = None if cost is None else ratio(cost, hours)
    return GroupRow.model_validate(
        {
            **sums_of(sums, target, price),
            "name": NO_JOB,
            "is_named": False,
            "jobs": 0,
            "flagged_jobs": 0,
            "priced_ratio": None if price is None else 1.0,
            "idle_cost": outside_hours.idle.cost,
        }
    )


def _at_least(counted: PricedHours, hours: float, price: float | None) -> PricedHours:
    """The same, or as many hours as there are at least; those beyond have the mean price."""
    more = hours - (counted.gpu_hours or 0.0)
    return counted if more <= 0 else counted.plus(PricedHours(more, times(more, price)))


def _of_models(models: Models, prices: Prices, value: Callable[[ModelSums], float]) -> PricedHours:
    ordered = sorted(models.items(), key=lambda item: item[0])
    return _priced(((value(sums), prices.of(model)) for (_, _, model), sums in ordered), prices)


def _priced(parts: Iterable[tuple[float, float | None]], prices: Prices) -> PricedHours:
    """The sum of hours, each at its price. Without a price for any of them there is no cost."""
    hours, cost = 0.0, 0.0
    has_prices = bool(prices.gpu_hour)
    for part, price in parts:
        hours += part
        cost += part * (price or 0.0)
        has_prices = has_prices and (price is not None or not part)
    return PricedHours(hours, cost if has_prices else None)


_MEANINGS: Mapping[StepName, str] = {
    "installed": "GPUs that agents knew of",
    "free": "held by no job, and no tensor pipe was used",
    "unclaimed": "held by no job, and tensor pipes were used",
    "unknown": "held by no job, and whether they were used is not known",
    "held": "held by jobs",
    "unmeasured": "held, and OFU was not measured",
    "idle": "held, and no tensor pipe was used",
    "active": "held or not, and tensor pipes were used",
    "effective": "the work in GPU-hours at the full peak: OFU",
}


def funnel(whole: PricedHours, jobs: PricedJobs, rest: Outside) -> list[FunnelStep]:
    """The steps from what is installed to what it amounted to: by jobs, and by GPUs that none held."""
    held, observed, idle = jobs.of("held"), jobs.of("observed"), jobs.of("idle")
    is_seen = whole.gpu_hours is not None or rest.observed > 0
    free = rest.idle.at_most(rest.whole)
    unclaimed = rest.busy.at_most(rest.whole.less(free))
    steps: dict[StepName, PricedHours] = {
        "installed": whole,
        "free": free if is_seen else UNKNOWN,
        "unclaimed": unclaimed if is_seen else UNKNOWN,
        "unknown": rest.whole.less(free).less(unclaimed),
        "held": held,
        "unmeasured": held.less(observed),
        "idle": idle,
        "active": observed.less(idle).plus(rest.busy),
        "effective": jobs.of("effective").plus(rest.effective),
    }
    base = whole.gpu_hours or (held.gpu_hours or 0.0) + rest.observed
    return [
        FunnelStep(
            name=name,
            meaning=_MEANINGS[name],
            gpu_hours=hours,
            share=hours / base if hours is not None and base > 0 else None,
            cost=cost,
        )
        for name, (hours, cost) in steps.items()
    ]


PAGE = "docs/where.md"
BEFORE_JOBS = ("free", "unclaimed", "unknown", "unmeasured")
"""Steps of the funnel that are lost before any job has a part in them."""
ADVICE: Mapping[Loss, str] = {
    Loss.CLOCK: "Power or heat held the clock down: look at limits and cooling.",
    Loss.NO_TENSOR: "Memory, communication or other arithmetic: fused kernels, larger batches and overlap help.",
    Loss.EMPTY_SMS: "Small grids and launch gaps: larger batches, CUDA graphs, fewer and larger kernels.",
    Loss.IDLE: "GPUs wait for their host: more data loader workers, asynchronous checkpoints, the slowest rank.",
    Loss.ENGINE_WITHOUT_TENSOR: "Collect SM activity too (DCGM_FI_PROF_SM_ACTIVE) to tell these two apart.",
    Loss.EMPTY_OR_IDLE: "The engine's activity (DCGM_FI_PROF_GR_ENGINE_ACTIVE) would tell these two apart.",
    Loss.WITHOUT_TENSOR: "Engine and SM activity would tell these three apart.",
    Loss.UNSPLIT: "Keep ofu_job_lost_seconds_total, or what the rules make of it, as long as the other series.",
}


def lost_hours(row: SumsRow) -> dict[Loss, float]:
    """The GPU-hours that some jobs lost, by part; only the parts that are known, the largest first."""
    by_loss = {loss: getattr(row, f"lost_{loss.value}_gpu_hours") for loss in Loss}
    measured = {loss: hours for loss, hours in by_loss.items() if hours is not None}
    return dict(sorted(measured.items(), key=lambda part: -part[1]))


HELD_NO_KERNEL, WAITING = "held_no_kernel", "waiting_for_host"
_WORDS: Mapping[str, str] = {
    "unclaimed": "busy without a known job",
    "unknown": "no job, and not known",
    "unmeasured": "held, not measured",
    HELD_NO_KERNEL: "held, no kernel",
    WAITING: "waiting for the host",
    Loss.CLOCK.value: "below the clock",
    "delivered": "became work",
}


def step_words(step: WaterfallStep) -> str:
    if step.name == Loss.CLOCK and (step.gpu_hours or 0.0) < 0:
        return "above the clock, gained"
    other = Loss(step.name).words if step.name in set(Loss) else step.name
    return _WORDS.get(step.name, other)


def is_shown(step: WaterfallStep) -> bool:
    """Whether a step is worth a line: the ends are, and what is more than 0.0%."""
    is_end = step.name in ("installed", "delivered")
    seen = step.gpu_hours if step.share is None else round(step.share, 3)
    return is_end or bool(seen)


def largest_loss(total: GroupRow) -> str:
    """What jobs lost most of the peak to, and what usually helps; empty where no part is known."""
    loss, hours = next(iter(lost_hours(total).items()), (Loss.UNSPLIT, 0.0))
    if loss is Loss.UNSPLIT or hours <= 0:
        return ""
    share = percent(hours / total.observed_gpu_hours)
    return f"The largest loss of jobs is {loss.words} ({share} of their measured GPU-hours). {ADVICE[loss]} See {PAGE}."


def waterfall(
    funnel: Sequence[FunnelStep], jobs: PricedJobs, total: GroupRow
) -> list[WaterfallStep]:
    """The steps. What GPUs did of which no job has the OFU is no part of what is delivered."""
    by_name: dict[str, FunnelStep] = {step.name: step for step in funnel}
    base = by_name["installed"].gpu_hours
    of_jobs = sorted(_lost(jobs, total), key=lambda each: -(each.hours.gpu_hours or 0.0))
    delivered = _Lost(
        "delivered", "the work done, in hours at the full peak", jobs.of("effective"), ""
    )
    before = [
        WaterfallStep(**by_name[name].model_dump(), advice="", page="docs/fleet.md")
        for name in ("installed", *BEFORE_JOBS)
    ]
    return before + [
        WaterfallStep(
            name=name,
            meaning=meaning,
            gpu_hours=hours,
            share=hours / base if hours is not None and base else None,
            cost=cost,
            advice=advice,
            page=PAGE,
        )
        for name, meaning, (hours, cost), advice in (*of_jobs, delivered)
    ]


class _Lost(NamedTuple):
    name: str
    meaning: str
    hours: PricedHours
    advice: str


def _lost(jobs: PricedJobs, total: GroupRow) -> Iterator[_Lost]:
    """What jobs lost of the peak; of hours without a kernel those of jobs at rest stand apart."""
    for loss in lost_hours(total):
        if loss is not Loss.IDLE:
            yield _Lost(loss.value, loss.meaning, jobs.of(f"lost_{loss.value}"), ADVICE[loss])
            continue
        rested = jobs.sum(_rested)
        yield _Lost(
            HELD_NO_KERNEL,
            "jobs that held GPUs and ran nothing for minutes",
            rested,
            "Jobs that held GPUs and ran nothing: end them, ask for fewer GPUs, or limit their time.",
        )
        waited = jobs.of("lost_idle").less(rested)
        yield _Lost(WAITING, "no kernel ran for moments", waited, ADVICE[loss])


def _rested(row: JobRow) -> float:
    return min(row.idle_gpu_hours, row.lost_idle_gpu_hours or 0.0)
