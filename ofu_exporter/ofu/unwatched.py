"""Counts the time for which jobs that ended unwatched held GPUs: as held, and not as observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ofu_exporter.ofu.job_state import Held, Jobs, JobState, gap, with_held
from ofu_exporter.ofu.owners import OwnerState
from ofu_exporter.values import device_names
from ofu_exporter.values.gpu import Gpu, Share
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, JobKey


def settle(
    state: OwnerState, jobs: Jobs, shares: Mapping[Gpu, Share], now: Instant
) -> tuple[OwnerState, dict[JobKey, JobState]]:
    """Count every job that a scheduler says has ended, once. `shares` must be of all GPUs.

    A job that was watched to its end is complete. One that an earlier agent saw last goes on to its end; one
    that nobody saw is known from now on, if it ended after the time up to which the earlier agent watched.
    """
    told = frozenset(claim for claim in state.claims if claim.ended is not None)
    after = dict(jobs)
    for claim in sorted(told - state.settled, key=lambda claim: claim.ended or 0.0):
        known = after.get(claim.job.key)
        if known is None:
            known = _unseen(claim, state.watched_until, now)
        if known is not None and known.job.is_same_run(claim.job) and not known.is_seen:
            after[claim.job.key] = _to_its_end(known, claim, shares)
    return replace(state, settled=told or state.settled), after


def _unseen(claim: Claim, watched_until: float | None, now: Instant) -> JobState | None:
    """A job that nobody has watched; None where somebody may have."""
    job, ended = claim.job, claim.ended or 0.0
    if watched_until is None or ended <= watched_until or job.started is None:
        return None
    began = max(watched_until, job.started)
    return JobState(job, began, ended=began, ended_at=now.monotonic, unseen_since=began)


def _to_its_end(state: JobState, claim: Claim, shares: Mapping[Gpu, Share]) -> JobState:
    """The job with the time from when it was seen last to its end."""
    last = state.ended or 0.0
    ended = max(claim.ended or 0.0, last)
    seconds = gap(last, ended)
    devices = [device_names.parse(name) for name in claim.devices]
    keys = {
        key for each in devices if not each.shared for key in device_names.find(each, [*shares])
    }
    for gpu, share in shares.items():
        if gpu.key in keys:
            state = with_held(state, Held(gpu, share.ratio), seconds)
    return replace(state, ended=ended, unseen_since=None)
