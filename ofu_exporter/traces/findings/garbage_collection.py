"""The GPU was idle while Python collected garbage."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import CostClaim, TraceFacts, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 12, 0.02
REMEDY = (
    "Call gc.disable() and gc.collect() every some hundred steps on all ranks at once, "
    "or gc.freeze() after the first step."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.idle is Idle.GARBAGE_COLLECTION)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"nothing ran on the GPU during {named(claimed)}"
