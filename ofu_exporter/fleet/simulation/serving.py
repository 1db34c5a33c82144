"""Says what the engines of a simulated job serve: tokens in proportion to the work of its GPUs."""

from __future__ import annotations

from ofu_exporter.fleet.simulation.fleet import JobTruth
from ofu_exporter.values.served import Served

REQUESTS_RUNNING = 8.0
"""While the job runs."""


def served_tokens(truth: JobTruth, begin: float, end: float, gpus: float) -> dict[str, float]:
    """By kind, what this many GPUs of the job serve between two seconds of the fleet; none of a job that serves not."""
    draft = truth.job.draft
    serves = draft.group.serves
    if serves is None or not draft.ofu:
        return {}
    gpu_seconds = gpus * (truth.integral(end) - truth.integral(begin)) / draft.ofu
    return {kind: rate * gpu_seconds for kind, rate in serves.tokens.items()}


def served(truth: JobTruth, begin: float, end: float, gpus: float) -> Served | None:
    """What an agent that started at `begin` has read of the engines of one node until `end`; None without engines."""
    serves = truth.job.draft.group.serves
    if serves is None:
        return None
    totals = Served()
    for kind, count in served_tokens(truth, begin, end, gpus).items():
        totals.tokens[serves.model, kind] = count
    totals.engines[serves.role] = 1.0
    totals.running[serves.model] = REQUESTS_RUNNING
    return totals
