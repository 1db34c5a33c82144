"""Says in a sentence or two what matters most in a report."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.fleet.reports.result import FunnelStep, GroupRow
from ofu_exporter.fleet.reports.waterfall import largest_loss
from ofu_exporter.support.percent import percent

_LOSSES = {
    "free": "idle GPUs without a job",
    "unknown": "GPUs without a job, of which nothing more is known",
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
    cost, used = by_name["installed"].cost, by_name["effective"].cost
    if cost is not None and used is not None:
        text += (
            f" The GPU-hours cost {cost:,.0f} {currency}; "
            f"the same work at the full peak would cost {used:,.0f} {currency}."
        )
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
