"""Nothing computed while ranks exchanged tokens or embeddings."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import ALL_TO_ALL, SEND_RECEIVE, Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 31, 0.03
REMEDY = (
    "Overlap the exchange with the dense part of the model, balance experts and tables "
    "over ranks, exchange fewer bytes (FP8, BF16); with traces of all ranks this says "
    "for whom the others wait."
)


def is_all_to_all(cell: TimeCell) -> bool:
    """NCCL exchanges by kernels that send and receive, as pipelines do; what launched one tells them apart."""
    sends = "send" in cell.operator or "recv" in cell.operator
    return cell.family == ALL_TO_ALL or (cell.family == SEND_RECEIVE and not sends)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.kind == Kind.COMMUNICATION and is_all_to_all(cell))


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    by = named(claimed, "operator")
    number = a_step(launches(claimed), facts)
    return f"nothing computed during {number} launches of {named(claimed)}" + (by and f", by {by}")
