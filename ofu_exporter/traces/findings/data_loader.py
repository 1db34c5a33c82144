"""The GPU was idle while the host waited for its next batch."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import CostClaim, TraceFacts, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 13, 0.02
REMEDY = (
    "More workers of the data loader, pin_memory and a larger prefetch_factor; move "
    "decoding to an earlier job, or read from a faster disk."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.idle is Idle.DATA_LOADER)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"nothing ran on the GPU during {named(claimed)}"
