"""Activations were computed a second time in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.host import Scope
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 22, 0.03
REMEDY = (
    "Recompute fewer layers, or attention alone, as far as memory allows; a larger "
    "share of the memory, FSDP or offloading saves it."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(bool(cell.scope & Scope.RECOMPUTE) and cell.kind in (Kind.TENSOR, Kind.OTHER))


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    number = a_step(launches(claimed), facts)
    return f"{number} kernels of the forward pass ran in the backward pass: {named(claimed)}"
