"""Counts the time for which jobs that ended unwatched held GPUs: as held, and not as observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ofu_exporter.ofu.ownership.held_time import (
    Credited,
    GpuShare,
    credit_span,
    free,
    gap,
    with_held,
)
from ofu_exporter.ofu.ownership.job_state import JobState
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.values import device_names
from ofu_exporter.values.gpu import Gpu, Share
from ofu_exporter.values.instant import Instant, Span
from ofu_exporter.values.job import Claim


def settle(state: OwnerState, shares: Mapping[Gpu, Share], now: Instant) -> OwnerState:
    """Count every job that a scheduler says has ended, once. `shares` must be of all GPUs.

    A job that was watched to its end is complete. One that an earlier agent saw last goes on to its end, also where
    it runs again by now; one that nobody saw is known from now on, if it ended after the time up to which the earlier
    agent watched.
    """
    ended = frozenset(claim for claim in state.ownership.claims if claim.ended is not None)
    after, credited = dict(state.jobs), state.credited
    for claim in sorted(ended - state.settled, key=lambda claim: claim.ended or 0.0):
        job_state = after.get(claim.job.key)
        if job_state is None:
            job_state = _unseen(claim, state.watched_until, now)
        if job_state is not None and job_state.job.is_same_run(claim.job) and not job_state.is_seen:
            gpus = _given_back(claim, shares)
            after[claim.job.key], credited = _to_its_end(job_state, claim, gpus, credited, now)
        elif job_state is not None and state.believed_since is None and _goes_on(job_state, claim):
            gpus = _given_back(claim, shares)
            after[claim.job.key], credited = _run_to_its_end(job_state, claim, gpus, credited, now)
    return replace(state, jobs=after, settled=ended or state.settled, credited=credited)


def _unseen(claim: Claim, watched_until: float | None, now: Instant) -> JobState | None:
    """A job that no agent watched; None where an earlier agent may have, or its begin is not known."""
    job, ended = claim.job, claim.ended or 0.0
    if watched_until is None or ended <= watched_until or job.started is None:
        return None
    began = max(watched_until, job.started)
    return JobState(job, began, ended=began, ended_at=now.monotonic, unseen_since=began)


def _given_back(claim: Claim, shares: Mapping[Gpu, Share]) -> list[GpuShare]:
    devices = [device_names.parse(name) for name in claim.devices]
    keys = {
        key for each in devices if not each.shared for key in device_names.find(each, [*shares])
    }
    return [GpuShare(gpu, share.ratio) for gpu, share in shares.items() if gpu.key in keys]


def _to_its_end(
    state: JobState, claim: Claim, gpus: list[GpuShare], credited: Credited, now: Instant
) -> tuple[JobState, Credited]:
    """The job with the time from when it was seen last to its end."""
    last = state.ended or 0.0
    ended = max(claim.ended or 0.0, last)
    state, credited = _with_gap(state, Span(last, ended), gpus, credited, now)
    return replace(state, ended=ended, unseen_since=None), credited


def _with_gap(
    state: JobState, unix: Span, gpus: list[GpuShare], credited: Credited, now: Instant
) -> tuple[JobState, Credited]:
    until = now.at_unix(unix.end).monotonic
    start = until - gap(*unix)
    for gpu in gpus:
        state = with_held(state, gpu, free(credited, gpu.gpu.key, start, until))
        credited = credit_span(credited, gpu.gpu.key, start, until)
    return state, credited


def _goes_on(state: JobState, claim: Claim) -> bool:
    """Whether a claim is of the run before the current one, which ended later than somebody saw it."""
    last = state.earlier[-1:]
    return any(
        run.uid and run.uid == claim.job.uid and (run.ended or 0.0) < (claim.ended or 0.0)
        for run in last
    )


def _run_to_its_end(
    state: JobState, claim: Claim, gpus: list[GpuShare], credited: Credited, now: Instant
) -> tuple[JobState, Credited]:
    """The job, whose run before the current one has the time from when it was seen last to its end."""
    *earlier, run = state.earlier
    ended = min(claim.ended or 0.0, state.current_began)
    after, credited = _with_gap(state, Span(run.ended or 0.0, ended), gpus, credited, now)
    held = run.held_seconds + after.held_seconds - state.held_seconds
    current = {key for key, usage in state.usage.items() if usage.in_last_run}
    usage = {key: replace(each, in_last_run=key in current) for key, each in after.usage.items()}
    whole = run._replace(ended=ended, held_seconds=held)
    return replace(after, usage=usage, earlier=(*earlier, whole)), credited
