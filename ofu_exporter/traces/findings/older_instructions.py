"""Products ran in kernels that were made for an older GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import Kind, architecture_of
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, launches, named
from ofu_exporter.traces.seconds import TimeCell

ORDER, LEAST = 21, 0.03
REMEDY = (
    "Make sides of matrices multiples of 16 (vocabulary, hidden sizes, batch), and use "
    "a newer cuBLAS and cuDNN: on an H100, kernels for Ampere run at most 0.61 of the "
    "FLOPs a cycle."
)
SLOWER = {90: 90, 100: 90, 103: 90, 75: 75, 80: 80}
"""By compute capability: kernels below this one use instructions that run slower there. From Ampere on to 8.9 they are
the same."""


def is_older(kernel: str, capability: int | None) -> bool:
    """Whether a kernel uses instructions of an older generation that run slower on a GPU."""
    made_for, least = architecture_of(kernel), SLOWER.get(capability or 0)
    return made_for is not None and least is not None and made_for < least


def claims(cell: TimeCell, facts: TraceFacts) -> float:
    return float(cell.kind == Kind.TENSOR and is_older(cell.name, facts.capability))


def evidence(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    gpu = f"compute capability {(facts.capability or 0) / 10:.1f}"
    return f"{a_step(launches(claimed), facts)} launches on {gpu} of {named(claimed)}"
