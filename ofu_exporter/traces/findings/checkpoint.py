"""The GPU was idle while a checkpoint was written within the step."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import Claim, Facts, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import Cell

ORDER, LEAST = 11, 0.02
REMEDY = (
    "Write checkpoints asynchronously (torch.distributed.checkpoint.async_save), or less often."
)


def claims(cell: Cell, facts: Facts) -> float:
    return float(cell.idle is Idle.CHECKPOINT)


def evidence(claimed: Sequence[Claim], facts: Facts) -> str:
    return f"nothing ran on the GPU during {named(claimed)}"
