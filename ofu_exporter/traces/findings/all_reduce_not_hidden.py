"""Nothing computed while gradients or parameters were reduced or gathered."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 32, 0.03
REMEDY = (
    "Let it run beside the backward pass: larger or smaller buckets (bucket_cap_mb), "
    "gradient_as_bucket_view, prefetching in FSDP, no_sync() while gradients "
    "accumulate; reduce in BF16."
)
_COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "broadcast")


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.kind == Kind.COMMUNICATION and cell.family in _COLLECTIVES)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    by = named(claimed, "operator")
    number = a_step(launches(claimed), facts)
    return f"nothing computed during {number} launches of {named(claimed)}" + (by and f", by {by}")
