"""Says how busy a job's memory was, and of a job that serves, what it served and whether memory bounds it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.support.percent import percent, ratio

MEMORY_BOUND = 0.6
"""Of its cycles. Even kernels that only copy leave some unused, so that a mean over all of a job's time that is this
high has most of the time at what memory can do."""


def served_lines(job: JobTotals) -> Iterator[str]:
    """What a job served, and how busy its memory was."""
    for each in job.served:
        if each.tokens or each.requests is not None:
            kinds = [f"{kind} {count:,.0f}" for kind, count in each.tokens.items() if count]
            tokens = f"tokens {', '.join(kinds)}" if kinds else "no tokens"
            requests = "" if each.requests is None else f"; requests {each.requests:,.0f}"
            yield f"Served {each.served_model or 'a model without a name'}: {tokens}{requests}"
    if job.memory_ratio is None:
        return
    yield _memory_line(job, job.memory_ratio)
    yield from _engine_lines(job)


def bound_by_memory(busy: float) -> str:
    """The words for a job whose memory was busy for this share of the cycles."""
    return f"Bound by memory: {percent(busy)} of what the card can move"


def _memory_line(job: JobTotals, busy: float) -> str:
    rate = job.memory_bytes_per_second
    moved = "" if rate is None else f", {rate / 1e12:.3g} TB/s a GPU"
    if not (job.served and busy >= max(MEMORY_BOUND, job.utilization_ratio or 0.0)):
        return f"Memory was busy for {percent(busy)} of the cycles{moved}"
    return (
        f"{bound_by_memory(busy)}{moved}. "
        "A low OFU is no waste here: larger batches or fewer bytes a token help"
    )


def _engine_lines(job: JobTotals) -> Iterator[str]:
    """The engines' own count of bytes beside the cards' counter, and the OFU that it allows."""
    memory, moved = job.sums.memory, job.memory_bytes_per_second
    counted = math.fsum(value for each in job.served for value in each.moved_bytes.values())
    seconds = math.fsum(each.seconds for each in job.served if each.moved_bytes)
    rate = ratio(counted, seconds)
    if not rate or not moved or memory is None:
        return
    bandwidth = moved * memory.seconds / memory.busy_seconds
    yield (
        f"By the engine's own count memory moved {rate / 1e12:.3g} TB/s a GPU, MBU {percent(rate / bandwidth)}; "
        f"by the card's counter {percent(job.memory_ratio)}"
    )
    flops = math.fsum(each.flops or 0.0 for each in job.served if each.moved_bytes)
    peak = job.reported and job.reported.peak_flops
    if flops and peak:
        reachable = flops / counted * moved / peak
        yield (
            f"At its {flops / counted:.3g} FLOPs a byte so busy a memory allows an OFU of {percent(reachable)}"
        )
