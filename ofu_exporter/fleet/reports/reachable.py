"""Says what can be had back of the GPU-hours of jobs: measured against what comparable jobs reach, not the peak."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ofu_exporter.fleet.reports.groups import RatedJob
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.jobs.served_text import MEMORY_BOUND

FEWEST_ALIKE = 5
"""Jobs of one model and size from which on their upper quartile counts."""
DEFINITION = (
    "Can be had back: the GPU-hours in which a job held GPUs and no kernel ran (where no counter tells: no tensor pipe "
    "was used), and the busy hours that its work would save at the OFU of the best quarter of jobs with the same GPU "
    f"model and size. With fewer than {FEWEST_ALIKE} such jobs the target stands in for them. A job above that saves "
    "none. One that serves is compared with the OFU that it would have with its memory always busy."
)
JobShape = tuple[str | None, int]
"""A GPU model and a number of GPUs."""


def with_recoverable(jobs: list[RatedJob], target: float | None) -> list[RatedJob]:
    """The same list with what can be had back of each job; its rows, which are large, are never there twice."""
    reached = reach(job.row for job in jobs)
    for place, job in enumerate(jobs):
        jobs[place] = RatedJob(job.history, _rated(job.row, reached, target))
    return jobs


def reach(rows: Iterable[JobRow]) -> dict[JobShape, float]:
    """The upper quartile of the OFU in busy hours, where there are enough jobs of a kind."""
    alike: dict[JobShape, list[float]] = defaultdict(list)
    for row in rows:
        ofu = busy_ofu(row)
        if ofu is not None and row.gpus is not None and not is_memory_bound(row):
            alike[_kind(row)].append(ofu)
    return {
        kind: statistics.quantiles(values, n=4, method="inclusive")[2]
        for kind, values in alike.items()
        if len(values) >= FEWEST_ALIKE
    }


def busy_ofu(row: JobRow) -> float | None:
    """The OFU over the hours in which tensor pipes were used; None without such."""
    busy = row.observed_gpu_hours - row.idle_gpu_hours
    return row.effective_gpu_hours / busy if busy > 0 else None


def is_memory_bound(row: JobRow) -> bool:
    """Whether a job serves, and memory and not tensor pipes bounds what it does: its low OFU is no waste."""
    busy = row.memory_ratio
    return busy is not None and busy >= max(MEMORY_BOUND, row.ofu or 0.0)


def _within_memory(row: JobRow, attainable: float) -> float:
    """The OFU that a job can have: of one that serves, at most what it would have with its memory busy all the time,
    because its FLOPs a byte stay what they are."""
    ofu, busy = busy_ofu(row), row.memory_ratio
    if ofu is None or not busy or ofu > busy:
        return attainable
    return ofu if is_memory_bound(row) else min(attainable, ofu / busy)


def unused(row: JobRow) -> float:
    """GPU-hours in which the job let its GPUs rest. Kernels without tensor instructions (FP64, memory) are work,
    where a counter tells that they ran."""
    no_kernel = row.lost_idle_gpu_hours
    return row.idle_gpu_hours if no_kernel is None else min(row.idle_gpu_hours, no_kernel)


def busy_gap(row: JobRow) -> float | None:
    """GPU-hours that can be had back without those in which the GPUs rested."""
    whole = row.recoverable_gpu_hours
    return None if whole is None else whole - unused(row)


def _kind(row: JobRow) -> JobShape:
    return row.model, round(row.gpus or 0)


def _rated(row: JobRow, reached: Mapping[JobShape, float], target: float | None) -> JobRow:
    attainable = target if row.gpus is None else reached.get(_kind(row), target)
    busy = max(0.0, row.observed_gpu_hours - row.idle_gpu_hours)
    if not row.observed_gpu_hours or (busy and not attainable):
        return row  # nothing to measure it against
    attainable = attainable and _within_memory(row, attainable)
    gap = max(0.0, busy - row.effective_gpu_hours / attainable) if attainable else 0.0
    hours = unused(row) + gap
    is_priced = row.cost is not None and row.held_gpu_hours > 0
    price = (row.cost or 0.0) / row.held_gpu_hours if is_priced else None
    return row.model_copy(
        update={
            "recoverable_gpu_hours": hours,
            "recoverable_cost": None if price is None else price * hours,
        }
    )
