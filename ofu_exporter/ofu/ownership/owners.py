"""Takes what schedulers claim: who holds which GPU from when on, for how long, and which claims are not believed."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ofu_exporter.ofu.ownership import doubt, stand_ins
from ofu_exporter.ofu.ownership.held_time import Credited, GpuShare, JobGpu, hold, identified
from ofu_exporter.ofu.ownership.holders import (
    NOBODY,
    Holding,
    Holdings,
    Resolved,
    changed,
    resolve,
    sole_holding,
)
from ofu_exporter.ofu.ownership.job_state import Jobs, take_holders, views
from ofu_exporter.ofu.ownership.stand_ins import Renamed
from ofu_exporter.values.gpu import Gpu, GpuKey, Share
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, Job, JobKey, Ownership
from ofu_exporter.values.reading import Window
from ofu_exporter.values.reasons import ClaimRejection
from ofu_exporter.values.snapshot import JobView, SchedulerHealth

NO_OWNERSHIP = Ownership(0.0, ())
Counts = Mapping[str, Mapping[str, int]]
"""How many claims were not believed, by scheduler and reason."""


@dataclass(frozen=True, slots=True)
class OwnerState:
    """What is remembered of jobs and of the schedulers' claims from tick to tick."""

    jobs: Jobs = field(default_factory=dict)
    ownership: Ownership = NO_OWNERSHIP
    """What the schedulers said last."""
    resolved: Resolved = NOBODY
    """The same claims, resolved to the GPUs in `resolved_for`."""
    resolved_for: tuple[Gpu, ...] = ()
    history: Mapping[GpuKey, Holdings] = field(default_factory=dict)
    counted_until: float | None = None
    """Monotonic time up to which the time that jobs held GPUs has been counted."""
    rejected: Counts = field(default_factory=dict)
    watched_until: float | None = None
    """Unix time up to which an earlier agent watched this node; None where none has left word."""
    believed_since: float | None = None
    """The same if the clock was set since: a job that seems to have begun before began by another clock."""
    settled: frozenset[Claim] = frozenset()
    """Claims of jobs that ended, whose unwatched time is counted."""
    unknown: frozenset[tuple[JobKey, str]] = frozenset()
    """Devices that are no GPU of this node, and have been counted as such."""
    credited: Credited = field(default_factory=dict)
    """For which time each GPU is credited to a job."""

    def holders(self, key: GpuKey) -> tuple[Job, ...]:
        return self.resolved.holders.get(key, ())

    def views(self, now: Instant) -> tuple[JobView, ...]:
        """What may be shown of every job."""
        return views(self.jobs.values(), now)

    def with_rejected(self, health: SchedulerHealth) -> SchedulerHealth:
        """A scheduler's health with the claims that were not believed here."""
        counts = Counter(health.rejected)
        counts.update(self.rejected.get(health.name, {}))
        return replace(health, rejected=dict(counts))

    def sole_holding(self, key: GpuKey, window: Window) -> Holding | None:
        """That a job alone held a GPU for all of a window, if one did."""
        return sole_holding(self.history.get(key, ()), window.start, window.end)


def take_changes(
    state: OwnerState, shares: Mapping[Gpu, Share], changes: Sequence[Ownership], now: Instant
) -> OwnerState:
    """Count the GPU-seconds for which every job held its GPUs, change by change until now.

    `shares` are of every GPU and MIG instance that there is.
    """
    gpus = tuple(shares)
    present = {gpu.key: GpuShare(gpu, share.ratio) for gpu, share in shares.items()}
    if gpus != state.resolved_for:  # a job may already have a GPU that was just found
        state = replace(state, jobs=identified(state.jobs, present.values()))
        state = _resolve(state, state.ownership, present, now)
    for change in changes:
        at = now.at(min(max(change.at, state.counted_until or change.at), now.monotonic))
        state = _resolve(_count_held(state, present, at), change, present, at)
    return _count_held(state, present, now)


def _resolve(
    state: OwnerState, ownership: Ownership, present: Mapping[GpuKey, GpuShare], at: Instant
) -> OwnerState:
    """What the claims mean for these GPUs, from `at` on: who has them, and which jobs end or are sure again."""
    gpus = tuple(one.gpu for one in present.values())
    resolved = resolve(stand_ins.under_their_jobs(ownership.claims, state.jobs), gpus)
    holders = {job.key: job for jobs in resolved.holders.values() for job in jobs}
    renamed = stand_ins.renamed(state.jobs, holders)
    before = state.resolved.job_gpus(present)
    had = [one._replace(job=renamed.get(one.job.key, one.job)) for one in before]
    jobs = stand_ins.taken_over(state.jobs, renamed, at)
    kept, ends = _kept(had, resolved.job_gpus(present)), _ends(ownership, holders, at)
    lost = doubt.lost_since(jobs, had, kept, ends)
    jobs, credited = doubt.confirmed(jobs, state.credited, ownership.unsure, kept, at)
    jobs, credited = doubt.ended_in_doubt(jobs, credited, had, ends)
    is_watched = state.ownership is not NO_OWNERSHIP
    jobs = take_holders(jobs, holders.values(), at, state.believed_since, is_watched)
    return replace(
        state,
        jobs=doubt.marked(jobs, ownership.unsure, at),
        ownership=ownership,
        resolved=resolved,
        resolved_for=gpus,
        history={
            key: _history(state, renamed, key, [*lost.get(key, ()), resolved.holding(key, at)])
            for key in present
        },
        rejected=_count_contested(state, resolved),
        credited=credited,
    )


def _history(state: OwnerState, renamed: Renamed, key: GpuKey, new: Iterable[Holding]) -> Holdings:
    before = stand_ins.in_history(state.history.get(key, ()), renamed)
    return functools.reduce(changed, new, before)


def _ends(ownership: Ownership, holders: Collection[JobKey], now: Instant) -> dict[JobKey, Instant]:
    """When jobs ended that hold nothing any more, as their schedulers say."""
    return {
        claim.job.key: min(now.at_unix(claim.ended), now)
        for claim in ownership.claims
        if claim.ended is not None and claim.job.key not in holders
    }


def _kept(had: Iterable[JobGpu], has: Iterable[JobGpu]) -> list[JobGpu]:
    """The GPUs that a job had before, and has now."""
    jobs = {(one.gpu_share.gpu.key, one.job.key): one.job for one in has}
    return [
        one
        for one in had
        if (job := jobs.get((one.gpu_share.gpu.key, one.job.key))) and one.job.is_same_run(job)
    ]


def _count_held(
    state: OwnerState, present: Mapping[GpuKey, GpuShare], until: Instant
) -> OwnerState:
    begin = until.at(until.monotonic if state.counted_until is None else state.counted_until)
    job_gpus = state.resolved.job_gpus(present)
    jobs, credited = hold(state.jobs, state.credited, job_gpus, begin, until.monotonic)
    return replace(state, jobs=jobs, counted_until=until.monotonic, credited=credited)


def _count_contested(state: OwnerState, resolved: Resolved) -> Counts:
    """Count every GPU that is contested now and was not before."""
    new = [key for key in resolved.contested if key not in state.resolved.contested]
    schedulers = [resolved.holders[key][0].scheduler for key in new]
    return _one_more(state.rejected, schedulers, ClaimRejection.CONTESTED)


def count_unknown(state: OwnerState) -> OwnerState:
    """Count every device that is no GPU of this node and was not counted before."""
    unknown = frozenset((job.key, device) for job, device in state.resolved.unknown)
    if unknown == state.unknown:
        return state
    schedulers = [scheduler for (scheduler, _), _ in unknown - state.unknown]
    rejected = _one_more(state.rejected, schedulers, ClaimRejection.UNKNOWN_DEVICE)
    return replace(state, unknown=unknown, rejected=rejected)


def _one_more(rejected: Counts, schedulers: Iterable[str], why: ClaimRejection) -> Counts:
    counts = {name: Counter(reasons) for name, reasons in rejected.items()}
    for name in schedulers:
        counts.setdefault(name, Counter())[why.value] += 1
    return counts
