"""The half of the tick that is about jobs: (state, what was heard and measured, now) -> state, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ofu_exporter.ofu.ownership.doubt import credit_or_set_aside, credit_wait
from ofu_exporter.ofu.ownership.job_state import (
    JobState,
    all_counted,
    forget,
    of_earlier_run,
    with_steps,
)
from ofu_exporter.ofu.ownership.owners import OwnerState, count_unknown, take_changes
from ofu_exporter.ofu.ownership.unwatched import settle
from ofu_exporter.values.gpu import Gpu, Share
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import JobKey, Ownership
from ofu_exporter.values.reading import Window


@dataclass(frozen=True, slots=True)
class OwnerTick:
    """What one tick has heard of jobs, and measured on their GPUs."""

    shares: Mapping[Gpu, Share]
    """Every GPU and MIG instance that there is."""
    are_all_read: bool
    """Whether each of them has been read, so that all their names are known."""
    changes: Sequence[Ownership]
    """Every change of who owns what since the last tick, oldest first."""
    windows: Iterable[tuple[Gpu, Window]]
    stepped: frozenset[tuple[JobKey, str]]
    """The jobs whose run, by its uid, has stated a step by the last tick."""


def take(state: OwnerState, tick: OwnerTick, now: Instant) -> OwnerState:
    """Take in one tick: first who owns what, then what was measured."""
    last_tick = now.monotonic if state.counted_until is None else state.counted_until
    state = take_changes(state, tick.shares, tick.changes, now)
    jobs = with_steps(state.jobs, tick.stepped, last_tick)
    for gpu, window in tick.windows:
        _credit(jobs, state, gpu, window)
    state = replace(state, jobs=jobs)
    if tick.are_all_read:
        counted = replace(count_unknown(state), jobs=all_counted(jobs))
        state = settle(counted, tick.shares, now)
    return replace(state, jobs=forget(state.jobs, now.monotonic))


def _credit(jobs: dict[JobKey, JobState], owners: OwnerState, gpu: Gpu, window: Window) -> None:
    """Add a window to the totals of the job that alone held the GPU for all of it, if there is one."""
    holding = owners.sole_holding(gpu.key, window)
    job = holding and holding.jobs[0]
    if holding is None or job is None or job.key not in jobs:
        return
    state = jobs[job.key]
    if not state.job.is_anothers(job):
        credited = (credit_wait if holding.waits else credit_or_set_aside)(state, gpu, window)
        is_current = state.job.is_same_run(job) or not state.earlier
        jobs[job.key] = credited if is_current else of_earlier_run(state, credited)
