"""Tensors were copied to change the order of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import LAYOUT, Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 24, 0.02
REMEDY = (
    "For convolutions use channels_last: model.to(memory_format=torch.channels_last), "
    "and the inputs, too; elsewhere avoid contiguous() after transposing."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(
        cell.kind == Kind.OTHER and (cell.family == LAYOUT or cell.operator == "aten::contiguous")
    )


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"{a_step(launches(claimed), facts)} launches of {named(claimed)}"
