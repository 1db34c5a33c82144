"""Divides the installed GPU-hours: free, held and not measured, held idle, active, and effective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ofu_exporter.fleet.reports.job_rows import times
from ofu_exporter.fleet.reports.prices import Prices
from ofu_exporter.fleet.reports.result import FunnelStep, GroupRow
from ofu_exporter.fleet.reports.sums import ModelSums

_MEANINGS: Mapping[str, str] = {
    "installed": "GPUs that agents knew of",
    "free": "no job had them",
    "held": "jobs had them",
    "unmeasured": "held, and OFU was not measured",
    "idle": "held, and no tensor pipe was used",
    "active": "held, and tensor pipes were used",
    "effective": "what the work amounts to at the full peak: OFU",
}


class Installed(NamedTuple):
    """GPU-hours of all GPUs, and their price."""

    gpu_hours: float | None
    cost: float | None
    """None where the price of any of them is not known."""


def installed(models: Mapping[tuple[int, str, str], ModelSums], prices: Prices) -> Installed:
    hours, cost = 0.0, 0.0
    known = True
    for (_, _, model), sums in sorted(models.items()):
        price = prices.of(model)
        hours += sums.installed
        cost += sums.installed * (price or 0.0)
        known = known and (price is not None or not sums.installed)
    return Installed(hours or None, cost if known and hours else None)


def funnel(whole: Installed, total: GroupRow) -> list[FunnelStep]:
    """The steps from what is installed to what it amounted to."""
    gpu_hours, held = whole.gpu_hours, total.held_gpu_hours
    price = total.cost / held if total.cost is not None and total.priced_ratio == 1 else None
    active = total.observed_gpu_hours - total.idle_gpu_hours
    free = None if gpu_hours is None else max(0.0, gpu_hours - held)
    held_cost = times(held, price)
    free_cost = None
    if whole.cost is not None and held_cost is not None:
        free_cost = max(0.0, whole.cost - held_cost)
    found: dict[str, tuple[float | None, float | None]] = {
        "installed": (gpu_hours, whole.cost),
        "free": (free, free_cost),
        "held": (held, held_cost),
        "unmeasured": _priced(max(0.0, held - total.observed_gpu_hours), price),
        "idle": (total.idle_gpu_hours, total.idle_cost if price is not None else None),
        "active": _priced(active, price),
        "effective": _priced(total.effective_gpu_hours, price),
    }
    base = gpu_hours or held
    return [_step(name, hours, cost, base) for name, (hours, cost) in found.items()]


def _priced(hours: float, price: float | None) -> tuple[float, float | None]:
    return hours, times(hours, price)


def _step(name: str, hours: float | None, cost: float | None, base: float) -> FunnelStep:
    share = hours / base if hours is not None and base > 0 else None
    return FunnelStep.model_validate(
        {
            "name": name,
            "meaning": _MEANINGS[name],
            "gpu_hours": hours,
            "share": share,
            "cost": cost,
        }
    )
