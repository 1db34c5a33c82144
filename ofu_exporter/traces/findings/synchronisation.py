"""The GPU ran empty because the host waited for it, and had nothing queued when it went on."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import CostClaim, TraceFacts, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 14, 0.02
REMEDY = (
    "Call item(), nonzero(), cpu() and print() of tensors every some hundred steps "
    "alone; allocate once (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True); copy from "
    "pinned memory with non_blocking=True."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.idle in (Idle.SYNCHRONISATION, Idle.ALLOCATION))


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"the host stood in {named(claimed)} until the GPU was empty"
