"""The GPU was idle while CPUs checked collectives with each other."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import CostClaim, TraceFacts
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 10, 0.02
REMEDY = (
    "Unset TORCH_DISTRIBUTED_DEBUG (DETAIL checks every collective on the CPUs), and "
    "call barriers and gathers of the gloo backend less often."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.idle is Idle.CPU_COLLECTIVE)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in facts.cpu_collectives.items())
    return f"nothing ran on the GPU while CPUs communicated: {counts}" if counts else ""
