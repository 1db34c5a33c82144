"""Divides the installed GPU-hours: held or not, measured or not, idle or active, and what they amount to."""

from __future__ import annotations

from collections.abc import Mapping

from ofu_exporter.fleet.reports.job_rows import times
from ofu_exporter.fleet.reports.outside import UNKNOWN, Outside, PricedHours
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.result import FunnelStep, GroupRow

_MEANINGS: Mapping[str, str] = {
    "installed": "GPUs that agents knew of",
    "free": "not held by exactly one job, and no tensor pipe was used",
    "unclaimed": "not held by exactly one job, and tensor pipes were used",
    "unknown": "not held by exactly one job, and whether they were used is not known",
    "held": "held by jobs",
    "unmeasured": "held, and OFU was not measured",
    "idle": "held, and no tensor pipe was used",
    "active": "held or not, and tensor pipes were used",
    "effective": "the work in GPU-hours at the full peak: OFU",
}


def held(total: GroupRow, prices: Prices) -> PricedHours:
    """The GPU-hours of jobs. Their cost is known where that of all of them is."""
    if not total.held_gpu_hours:
        return PricedHours(0.0, 0.0 if prices.gpu_hour else None)
    return PricedHours(total.held_gpu_hours, total.cost if total.priced_ratio == 1 else None)


def funnel(
    whole: PricedHours, of_jobs: PricedHours, total: GroupRow, rest: Outside
) -> list[FunnelStep]:
    """The steps from what is installed to what it amounted to: by jobs, and by GPUs not held by exactly one job."""
    price = None if of_jobs.cost is None else of_jobs.cost / (total.held_gpu_hours or 1.0)

    def priced(hours: float) -> PricedHours:
        return PricedHours(hours, times(hours, price))

    idle_cost = None if price is None else total.idle_cost or 0.0
    is_seen = whole.gpu_hours is not None or rest.observed > 0
    steps: dict[str, PricedHours] = {
        "installed": whole,
        "free": rest.idle if is_seen else UNKNOWN,
        "unclaimed": rest.busy if is_seen else UNKNOWN,
        "unknown": rest.whole.less(rest.idle).less(rest.busy),
        "held": of_jobs,
        "unmeasured": priced(max(0.0, total.held_gpu_hours - total.observed_gpu_hours)),
        "idle": PricedHours(total.idle_gpu_hours, idle_cost),
        "active": priced(total.observed_gpu_hours - total.idle_gpu_hours).plus(rest.busy),
        "effective": priced(total.effective_gpu_hours).plus(rest.effective),
    }
    base = whole.gpu_hours or total.held_gpu_hours + rest.observed
    return [_step(name, each, base) for name, each in steps.items()]


def _step(name: str, priced: PricedHours, base: float) -> FunnelStep:
    hours = priced.gpu_hours
    share = hours / base if hours is not None and base > 0 else None
    return FunnelStep.model_validate(
        {
            "name": name,
            "meaning": _MEANINGS[name],
            "gpu_hours": hours,
            "share": share,
            "cost": priced.cost,
        }
    )
