"""Element-wise work ran as many kernels, each of which reads and writes its tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import ELEMENTWISE, Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 28, 0.15
REMEDY = "torch.compile, or fused kernels for normalisation, activation, dropout and loss."


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.kind == Kind.OTHER and cell.family == ELEMENTWISE)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"{a_step(launches(claimed), facts)} launches of {named(claimed)}"
