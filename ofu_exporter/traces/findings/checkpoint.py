"""The GPU was idle while a checkpoint was written within the step."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import CostClaim, TraceFacts, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 11, 0.02
REMEDY = (
    "Write checkpoints asynchronously (torch.distributed.checkpoint.async_save), or less often."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.idle is Idle.CHECKPOINT)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"nothing ran on the GPU during {named(claimed)}"
