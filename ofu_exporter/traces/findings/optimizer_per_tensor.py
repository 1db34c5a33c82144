"""The optimizer launched kernels for each tensor, instead of some for all."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import ELEMENTWISE
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.host import Idle, Scope
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 25, 0.02
REMEDY = "fused=True or foreach=True for optimizers of torch.optim."
_SINGLE = (ELEMENTWISE, "reduction", Idle.OPERATOR.value, Idle.OTHER_HOST.value)
LEAST_LAUNCHES = 50
"""In a step. Optimizers that update all tensors at once launch fewer."""


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(bool(cell.scope & Scope.OPTIMIZER) and cell.family in _SINGLE)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    kernels = [each for each in claimed if each.cell.idle is None]
    if launches(kernels) < LEAST_LAUNCHES * max(facts.steps, 1):
        return ""
    return (
        f"{a_step(launches(kernels), facts)} kernels within the optimizer's step: {named(kernels)}"
    )
