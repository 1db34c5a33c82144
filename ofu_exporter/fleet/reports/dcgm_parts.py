"""Splits what jobs lost of the peak by what a dcgm-exporter's history has: the engine's activity, and often the SMs'.

Each quantity is a sum over looks. Looks that lack a counter have two or three parts in one, so that the parts add up to
the measured GPU-hours in any case, and a history in which a counter comes and goes is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ofu_exporter.fleet.reports.fleet_history import FleetHistory, JobKey, JobSums
from ofu_exporter.values.losses import Loss

_ENGINE = "((DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO) >= 0 <= 1.05)"
_SMS = "((DCGM_FI_PROF_SM_ACTIVE or DCGM_FI_PROF_SM_UTIL_RATIO) >= 0 <= 1.05)"
CONTRADICTION = 0.01
"""Where a part is below 0 by more than this share of its hour, the counters contradict each other and are not used."""

Place = tuple[int, JobKey]
"""Hour and job."""
Sums = Mapping[Place, float]


def queries(sum_of: Callable[[str, str], str], measured: str) -> tuple[str, ...]:
    """What is asked of the looks at which `measured`, the tensor activity, is known; `add` takes the answers."""
    both = f"({_ENGINE} and {_SMS})"
    return (
        sum_of(measured, "sum_over_time"),
        sum_of(f"{_ENGINE} and {measured}", "count_over_time"),
        sum_of(f"{_ENGINE} and {measured}", "sum_over_time"),
        sum_of(f"{measured} and {_ENGINE}", "sum_over_time"),
        sum_of(f"{_SMS} and {_ENGINE} and {measured}", "sum_over_time"),
        sum_of(f"{both} and {measured}", "sum_over_time"),
        sum_of(f"{measured} and {both}", "sum_over_time"),
    )


def add(history: FleetHistory, observed: Sums, utilized: Sums, answers: Sequence[Sums]) -> None:
    """Add what jobs lost, by part, to their sums: `answers` are those of `queries` in GPU-hours."""
    for place, hours in sorted(observed.items()):
        if hours > 0:
            values = [answer.get(place, 0.0) for answer in answers]
            more = JobSums(lost=_parts(hours, utilized.get(place, 0.0), values))
            hour, key = place
            history.jobs[key].days[history.clock.day_of(hour)].add(more)


def _parts(observed: float, utilized: float, values: Sequence[float]) -> dict[str, float]:
    """The parts of one job's hour; they add up to what was observed and not used."""
    tensor, with_engine, engine, tensor_e, sms, engine_s, tensor_s = values
    clock = {Loss.CLOCK: tensor - utilized}
    parts = {
        Loss.NO_TENSOR: sms - tensor_s,
        Loss.EMPTY_SMS: engine_s - sms,
        Loss.ENGINE_WITHOUT_TENSOR: (engine - engine_s) - (tensor_e - tensor_s),
        Loss.IDLE: with_engine - engine,
        Loss.WITHOUT_TENSOR: (observed - with_engine) - (tensor - tensor_e),
    }
    if min(parts.values()) < -CONTRADICTION * observed:
        parts = {Loss.WITHOUT_TENSOR: observed - tensor}
    unmeasured = [] if engine_s else [Loss.NO_TENSOR, Loss.EMPTY_SMS]
    unmeasured += [] if with_engine else [Loss.IDLE]
    measured = {loss: hours for loss, hours in parts.items() if loss not in unmeasured}
    merged = (Loss.ENGINE_WITHOUT_TENSOR, Loss.WITHOUT_TENSOR)
    return {
        loss.value: hours
        for loss, hours in {**clock, **measured}.items()
        if loss not in merged or abs(hours) > 1e-9 * observed
    }
