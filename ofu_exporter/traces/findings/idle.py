"""Findings in idle time: what the host did while nothing ran on the GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.traces.findings import CostClaim, TraceFacts, finding, named
from ofu_exporter.traces.host import Idle
from ofu_exporter.traces.seconds import TimeCell


def _during(claimed: Sequence[CostClaim], _: TraceFacts) -> str:
    return f"nothing ran on the GPU during {named(claimed)}"


def _checks(_: Sequence[CostClaim], facts: TraceFacts) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in facts.cpu_collectives.items())
    return f"nothing ran on the GPU while CPUs communicated: {counts}" if counts else ""


@finding(
    10,
    0.02,
    "Unset TORCH_DISTRIBUTED_DEBUG (DETAIL checks every collective on the CPUs), and "
    "call barriers and gathers of the gloo backend less often.",
    _checks,
)
def cpu_collectives(cell: TimeCell, _: TraceFacts) -> float:
    """The GPU was idle while CPUs checked collectives with each other."""
    return cell.idle is Idle.CPU_COLLECTIVE


@finding(
    11,
    0.02,
    "Write checkpoints asynchronously (torch.distributed.checkpoint.async_save), or less often.",
    _during,
)
def checkpoint(cell: TimeCell, _: TraceFacts) -> float:
    """The GPU was idle while a checkpoint was written within the step."""
    return cell.idle is Idle.CHECKPOINT


@finding(
    12,
    0.02,
    "Call gc.disable() and gc.collect() every some hundred steps on all ranks at once, "
    "or gc.freeze() after the first step.",
    _during,
)
def garbage_collection(cell: TimeCell, _: TraceFacts) -> float:
    """The GPU was idle while Python collected garbage."""
    return cell.idle is Idle.GARBAGE_COLLECTION


@finding(
    13,
    0.02,
    "More workers of the data loader, pin_memory and a larger prefetch_factor; move "
    "decoding to an earlier job, or read from a faster disk.",
    _during,
)
def data_loader(cell: TimeCell, _: TraceFacts) -> float:
    """The GPU was idle while the host waited for its next batch."""
    return cell.idle is Idle.DATA_LOADER


def _until_empty(claimed: Sequence[CostClaim], _: TraceFacts) -> str:
    return f"the host stood in {named(claimed)} until the GPU was empty"


@finding(
    14,
    0.02,
    "Call item(), nonzero(), cpu() and print() of tensors every some hundred steps "
    "alone; allocate once (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True); copy from "
    "pinned memory with non_blocking=True.",
    _until_empty,
)
def synchronisation(cell: TimeCell, _: TraceFacts) -> float:
    """The GPU ran empty because the host waited for it, and had nothing queued when it went on."""
    return cell.idle in (Idle.SYNCHRONISATION, Idle.ALLOCATION)


def _stalls(claimed: Sequence[CostClaim], _: TraceFacts) -> str:
    stalled = [each for each in claimed if each.cell.idle is Idle.STALLED]
    fed = [each for each in claimed if each.cell.idle is not Idle.STALLED]
    phrases = []
    if fed:
        where = named(fed, "operator")
        phrases.append(
            f"{sum(each.seconds for each in fed):.3g} s with nothing queued"
            + (f", on the way to launches of {where}" if where else "")
        )
    if stalled:
        phrases.append(
            f"{sum(each.seconds for each in stalled):.3g} s in which the queued work waited and the host, "
            f"in {named(stalled)}, launched nothing else"
        )
    return "; ".join(phrases)


@finding(
    40,
    0.05,
    'CUDA graphs (torch.compile with mode="reduce-overhead"), fewer and larger kernels, '
    "larger batches, no work between launches in Python; bind processes to the cores "
    "beside their GPU.",
    _stalls,
)
def host_bound(cell: TimeCell, _: TraceFacts) -> float:
    """The GPU waited for the host to launch its next kernel."""
    return cell.idle in (Idle.OPERATOR, Idle.OTHER_HOST, Idle.STALLED)
