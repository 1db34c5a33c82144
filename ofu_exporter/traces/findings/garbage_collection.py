"""The GPU was idle while Python collected garbage."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import Claim, Facts, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import Cell

ORDER, LEAST = 12, 0.02
REMEDY = (
    "Call gc.disable() and gc.collect() every some hundred steps on all ranks at once, "
    "or gc.freeze() after the first step."
)


def claims(cell: Cell, facts: Facts) -> float:
    return float(cell.idle is Idle.GARBAGE_COLLECTION)


def evidence(claimed: Sequence[Claim], facts: Facts) -> str:
    return f"nothing ran on the GPU during {named(claimed)}"
