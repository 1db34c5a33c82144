"""Ranks waited in collectives for one that came last."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 30, 0.02
REMEDY = (
    "Look at that rank's node: its data, clock, temperature, neighbours; share batches "
    "and pipeline stages out more evenly."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return facts.waiting.share if facts.waiting and cell.kind == Kind.COMMUNICATION else 0.0


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    waiting = facts.waiting
    if waiting is None:
        return ""
    return (
        f"rank {waiting.rank} came last to {waiting.collectives:,} of {waiting.of:,} collectives, "
        f"and the others waited there for {waiting.share:.0%} of their time in them"
    )
