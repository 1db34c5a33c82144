"""Products computed the rest of their tiles, which is thrown away."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 27, 0.03
REMEDY = "Make sides of matrices multiples of 128, or of the tiles that `ofu-exporter tile` shows."


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return facts.padding.get(cell.name, 0.0) if cell.kind == Kind.TENSOR else 0.0


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return (
        f"tiles add to the FLOPs of {a_step(launches(claimed), facts)} launches of {named(claimed)}"
    )
