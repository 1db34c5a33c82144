"""The GPU only copied between its memory and memory of the host that is not pinned."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 15, 0.02
REMEDY = "pin_memory=True in the data loader, and non_blocking=True in copies to the GPU."


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.kind == Kind.COPY and "Pageable" in cell.name)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"nothing else ran during {a_step(launches(claimed), facts)} of {named(claimed)}"
