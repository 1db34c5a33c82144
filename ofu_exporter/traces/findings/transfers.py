"""Findings in transfers: nothing computed while GPUs exchanged or copied something."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.families import ALL_TO_ALL, SEND_RECEIVE, Kind
from ofu_exporter.traces.findings import CostClaim, TraceFacts, a_step, finding, launches, named
from ofu_exporter.traces.seconds import TimeCell

_COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "broadcast")


def _copied(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    return f"nothing else ran during {a_step(launches(claimed), facts)} of {named(claimed)}"


@finding(
    15,
    0.02,
    "pin_memory=True in the data loader, and non_blocking=True in copies to the GPU.",
    _copied,
)
def pageable_copies(cell: TimeCell, _: TraceFacts) -> float:
    """The GPU only copied between its memory and memory of the host that is not pinned."""
    return cell.kind == Kind.COPY and "Pageable" in cell.name


def _came_last(_: Sequence[CostClaim], facts: TraceFacts) -> str:
    waiting = facts.waiting
    if waiting is None:
        return ""
    return (
        f"rank {waiting.rank} came last to {waiting.collectives:,} of {waiting.of:,} collectives, "
        f"and the others waited there for {waiting.share:.0%} of their time in them"
    )


@finding(
    30,
    0.02,
    "Look at that rank's node: its data, clock, temperature, neighbours; share batches "
    "and pipeline stages out more evenly.",
    _came_last,
)
def slow_rank(cell: TimeCell, facts: TraceFacts) -> float:
    """Ranks waited in collectives for one that came last."""
    return facts.waiting.share if facts.waiting and cell.kind == Kind.COMMUNICATION else 0.0


def _communicated(claimed: Sequence[CostClaim], facts: TraceFacts) -> str:
    by = named(claimed, "operator")
    number = a_step(launches(claimed), facts)
    return f"nothing computed during {number} launches of {named(claimed)}" + (by and f", by {by}")


@finding(
    31,
    0.03,
    "Overlap the exchange with the dense part of the model, balance experts and tables "
    "over ranks, exchange fewer bytes (FP8, BF16); with traces of all ranks this says "
    "for whom the others wait.",
    _communicated,
)
def all_to_all(cell: TimeCell, _: TraceFacts) -> float:
    """Nothing computed while ranks exchanged tokens or embeddings."""
    # NCCL exchanges by kernels that send and receive, as pipelines do; what launched one tells them apart.
    sends = "send" in cell.operator or "recv" in cell.operator
    return cell.family == ALL_TO_ALL or (cell.family == SEND_RECEIVE and not sends)


@finding(
    32,
    0.03,
    "Let it run beside the backward pass: larger or smaller buckets (bucket_cap_mb), "
    "gradient_as_bucket_view, prefetching in FSDP, no_sync() while gradients "
    "accumulate; reduce in BF16.",
    _communicated,
)
def all_reduce_not_hidden(cell: TimeCell, _: TraceFacts) -> float:
    """Nothing computed while gradients or parameters were reduced or gathered."""
    return cell.family in _COLLECTIVES
