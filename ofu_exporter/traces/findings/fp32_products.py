"""Products and convolutions ran in FP32, outside the tensor pipes."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import FP32, Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 20, 0.03
REMEDY = (
    "Train in BF16 (torch.autocast), or allow TF32: "
    'torch.set_float32_matmul_precision("high") and torch.backends.cudnn.allow_tf32 = '
    "True; before Ampere use FP16."
)


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.kind == Kind.OTHER and cell.family == FP32)


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"{a_step(launches(claimed), facts)} launches of {named(claimed)}"
