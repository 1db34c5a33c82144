"""Reads the chain of the period before one from what the rules keep, to hold each factor against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ofu_exporter.fleet.history.answers import job_of
from ofu_exporter.fleet.history.progress_sums import BY_ENGINES, ProgressSums
from ofu_exporter.fleet.history.queries import JOB, NAMES
from ofu_exporter.fleet.reports.chain import JobProgress, chain
from ofu_exporter.fleet.reports.chain_rows import ChainStep
from ofu_exporter.fleet.reports.funnel import PricedHours
from ofu_exporter.fleet.series import Series

_NAMED = f"max by ({JOB}, {', '.join(NAMES)}, framework, reason)"
"""A job whose names changed has a series of each; of two replicas of a server one is enough."""
_KINDS = {
    "held": "job:held_gpu_hours:increase1h",
    "effective": "job:utilized_gpu_hours:increase1h",
    "lost": "job:lost_progress_gpu_hours:sum1h",
    "utilized": "job:lost_progress_utilized_gpu_hours:sum1h",
}
AskPrometheus = Callable[[str], list[Series]]


def read_chain(asked: AskPrometheus, hourly: str, installed: float) -> list[ChainStep]:
    """`hourly` is the range of the period, `installed` its GPU-hours; without costs."""
    sums = {
        name: asked(f"sum by ({JOB}, reason) ({_NAMED} (sum_over_time({series}{hourly})))")
        for name, series in _KINDS.items()
    }
    steps = asked(f"max by ({JOB}) (max_over_time(job:ofu_job_step:max1h{hourly}))")
    held, effective, used, step = (
        {job_of(one.labels): one.points[-1][1] for one in answer}
        for answer in (sums["held"], sums["effective"], sums["utilized"], steps)
    )
    of_jobs = {job: ProgressSums(utilized=used.get(job, 0.0), step=step.get(job)) for job in held}
    for one in sums["lost"]:
        if (job := job_of(one.labels)) in of_jobs:
            of_jobs[job].lost[one.labels.get("reason", "")] = one.points[-1][1]
    jobs = []
    for job, of_job in of_jobs.items():
        is_watched = BY_ENGINES[0].value in of_job.lost
        lost = of_job.cut(held[job]) if is_watched else {}
        jobs.append(JobProgress(held[job], effective.get(job, 0.0), of_job, lost))
    return chain(PricedHours(installed, None), PricedHours(sum(held.values()), None), jobs)


def with_changes(now: Sequence[ChainStep], before: Sequence[ChainStep]) -> list[ChainStep]:
    """Each factor with what it was before, as long as both chains have the same ones."""
    steps = []
    are_alike = bool(before)
    for at, step in enumerate(now):
        are_alike = are_alike and at < len(before) and before[at].factor == step.factor
        last = before[at] if are_alike else None
        shares = {"share_before": last and last.share, "ratio_before": last and last.ratio}
        steps.append(step.model_copy(update=shares))
    return steps
