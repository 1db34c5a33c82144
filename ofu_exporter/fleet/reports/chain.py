"""Multiplies out what became of a fleet's capacity: held, by all GPUs of a job at once, as progress, at which OFU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from ofu_exporter.fleet.history.fleet_history import FleetHistory
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.progress_sums import (
    BEFORE_TOGETHER,
    BY_ENGINES,
    NoProgress,
    ProgressSums,
)
from ofu_exporter.fleet.reports.chain_rows import ChainStep, Factor, ProgressRow
from ofu_exporter.fleet.reports.funnel import PricedHours
from ofu_exporter.fleet.reports.groups import RatedJob
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.support.percent import percent, ratio
from ofu_exporter.values.losses import known_sum

MOST_UNKNOWN = 0.01
"""Share of the held GPU-hours that may be without a watch before it is worth telling."""


class JobProgress(NamedTuple):
    """What is known of a job; `lost` is empty where its GPUs were not watched."""

    held: float
    effective: float
    sums: ProgressSums
    lost: dict[NoProgress, float]
    price: float | None = None
    row: JobRow | None = None

    @property
    def states(self) -> bool:
        """Whether it says anything of its progress."""
        by_steps = [reason for reason in NoProgress if reason not in BEFORE_TOGETHER]
        return self.sums.step is not None or any(self.lost.get(reason) for reason in by_steps)

    def tells(self, reason: NoProgress) -> bool:
        """Whether it is known how many of its GPU-hours these were: 0 is known only where somebody counts."""
        return bool(self.lost) and (reason in BY_ENGINES or reason.value in self.sums.lost)

    @property
    def together(self) -> float:
        return self.held - sum(self.lost.get(reason, 0.0) for reason in BEFORE_TOGETHER)

    @property
    def progress(self) -> float:
        return self.held - sum(self.lost.values())

    @property
    def used(self) -> float:
        """GPU-hours at the full peak in the progress: steps done again are as fast as others."""
        left = max(0.0, self.effective - self.sums.utilized)
        again = self.lost.get(NoProgress.DONE_AGAIN, 0.0)
        return left * (ratio(self.progress, self.progress + again) or 0.0) if again else left


def progress_of(
    history: FleetHistory, jobs: Iterable[RatedJob], prices: Prices
) -> list[JobProgress]:
    """Of each job, what its hours were."""
    of_jobs = []
    for job in jobs:
        sums = history.progress.get(job.history.key, ProgressSums())
        held_hours, price = job.row.held_gpu_hours, prices.of_mix(job.history.models)
        lost = sums.cut(held_hours) if sums.held else {}
        effective = job.row.effective_gpu_hours
        of_jobs.append(JobProgress(held_hours, effective, sums, lost, price, job.row))
    return of_jobs


def chain(whole: PricedHours, held: PricedHours, jobs: Sequence[JobProgress]) -> list[ChainStep]:
    """The factors, as far as they are known: without steps it ends at `together` x OFU."""
    levels: list[tuple[Factor, PricedHours]] = [("capacity", whole), ("allocated", held)]
    if any(job.lost for job in jobs):
        levels.append(("together", _priced(jobs, "together", held)))
    if any(job.states for job in jobs):
        levels.append(("progress", _priced(jobs, "progress", held)))
    if held.gpu_hours:
        levels.append(("ofu", _priced(jobs, "used", held)))
    base, before, steps = whole.gpu_hours, None, []
    for factor, (hours, cost) in levels:
        steps.append(
            ChainStep(
                factor=factor,
                share=ratio(hours, base) if hours is not None and base else None,
                ratio=1.0 if factor == "capacity" and hours else _ratio(hours, before),
                gpu_hours=hours,
                cost=cost,
            )
        )
        before = hours
    return steps


def _ratio(hours: float | None, before: float | None) -> float | None:
    return None if hours is None or before is None else ratio(hours, before)


def _priced(jobs: Sequence[JobProgress], name: str, held: PricedHours) -> PricedHours:
    """A sum over jobs; its cost where that of all held GPU-hours is known."""
    hours = [(getattr(job, name), job.price) for job in jobs]
    cost = None if held.cost is None else sum(each * (price or 0.0) for each, price in hours)
    return PricedHours(sum(each for each, _ in hours), cost)


def progress_rows(jobs: Sequence[JobProgress]) -> list[ProgressRow]:
    """All jobs, and these by user, by account and one by one, those that lost most first."""
    if not any(job.lost for job in jobs):
        return []
    rows = [_row("all", ("", "", ""), jobs)]
    kinds: tuple[Literal["user", "account", "job"], ...] = ("user", "account", "job")
    for by in kinds:
        named: dict[tuple[str, str, str], list[JobProgress]] = defaultdict(list)
        for job in jobs:
            if (row := job.row) and by == "job":  # an id may be of several users
                named[row.cluster, row.job_id, row.user].append(job)
            elif row:
                named["", getattr(row, by), ""].append(job)
        of_kind = [_row(by, name, members) for name, members in sorted(named.items())]
        rows += sorted(of_kind, key=lambda row: -no_progress_hours(row))
    return rows


def no_progress_hours(row: ProgressRow) -> float:
    """GPU-hours that were no progress."""
    return sum(getattr(row, f"{reason.value}_gpu_hours") or 0.0 for reason in NoProgress)


def _row(
    by: Literal["all", "user", "account", "job"],
    name: tuple[str, str, str],
    jobs: Sequence[JobProgress],
) -> ProgressRow:
    held_hours, watched = sum(job.held for job in jobs), sum(job.sums.held for job in jobs)
    are_watched = any(job.lost for job in jobs)
    states = any(job.states for job in jobs)
    used, whole = (sum(job.used for job in jobs), sum(job.effective for job in jobs))
    lost = {
        f"{reason.value}_gpu_hours": sum(job.lost.get(reason, 0.0) for job in jobs)
        if any(job.tells(reason) for job in jobs)
        else None
        for reason in NoProgress
    }
    costs = (job.price and job.price * sum(job.lost.values()) for job in jobs if job.lost)
    steps = [job.sums.step for job in jobs if job.sums.step is not None]
    restarts = known_sum(job.sums.restarts for job in jobs)
    return ProgressRow(
        by=by,
        cluster=name[0],
        name=name[1],
        user=name[2],
        held_gpu_hours=held_hours,
        watched_ratio=min(1.0, watched / held_hours) if held_hours else None,
        together_gpu_hours=sum(job.together for job in jobs) if are_watched else None,
        progress_gpu_hours=sum(job.progress for job in jobs) if are_watched and states else None,
        progress_effective_gpu_hours=used if are_watched else None,
        lost_effective_gpu_hours=whole - used if are_watched else None,
        lost_cost=known_sum(costs),
        restarts=None if restarts is None else round(restarts),
        step=max(steps) if by == "job" and steps else None,
        **lost,
    )


def chain_notes(
    steps: Sequence[ChainStep], rows: Sequence[ProgressRow], is_rough: bool
) -> Iterator[str]:
    """Why the chain ends where it does, and of how much it is known."""
    if len(steps) < 3:
        return
    factors = {step.factor for step in steps}
    if "together" not in factors:
        yield (
            "Whether all GPUs of a job were at work at once is not known: that takes the rules of job-gpus.yaml and "
            "hours.yaml, and the engines' activity."
        )
        return
    if is_rough:
        yield (
            "Where the rules kept no record, GPUs are looked at twelve times an hour: what became progress is known to "
            "2 points of the capacity."
        )
    if "progress" not in factors:
        yield (
            "No job states its steps, so how much was done again is not known, and nothing is taken for progress "
            "(docs/where.md#progress)."
        )
    watched = rows[0].watched_ratio if rows else None
    if watched is not None and watched < 1 - MOST_UNKNOWN:
        yield (
            f"What the GPUs' engines did is not known of {percent(1 - watched)} of the held GPU-hours; none of them "
            "counts as lost."
        )
