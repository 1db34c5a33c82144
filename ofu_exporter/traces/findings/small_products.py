"""Products were too small for the GPU: most of its SMs had no block."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import CONVOLUTION, PRODUCT
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 26, 0.03
REMEDY = (
    "Larger batches, or several products in one launch: torch.bmm, grouped products, "
    "merged projections."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.is_small and cell.family.startswith((PRODUCT, CONVOLUTION)))


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"{a_step(launches(claimed), facts)} launches with fewer blocks than half of the SMs: {named(claimed)}"
