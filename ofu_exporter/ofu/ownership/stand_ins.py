"""Lets a pod stand for its job until the API server says which job that is, and then gives its time to the job.

A scheduler that cannot say yet which job a pod is part of claims the GPU under the pod's own name and without a uid.
The job that it belongs to names it in its `aliases`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ofu_exporter.ofu.ownership.holders import Holdings
from ofu_exporter.ofu.ownership.job_state import Jobs, JobState, begun_anew
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, GpuUsage, Job, JobKey
from ofu_exporter.values.losses import known_sum

Renamed = Mapping[JobKey, Job]
"""The job that each stand-in stood for."""


def under_their_jobs(claims: Sequence[Claim], jobs: Jobs) -> list[Claim]:
    """The claims, in which a pod that an earlier answer has named stands under its job again.

    So it is after a restart of the agent while the API server is away: the state file has the job with its pods.
    A pod with the name of one that was seen to end is another one.
    """
    by_alias = {
        (state.job.scheduler, alias): key
        for key, state in jobs.items()
        if state.ended is None or not state.is_seen
        for alias in state.job.aliases
    }
    stood_for = {
        claim.job.key: by_alias[claim.job.key]
        for claim in claims
        if not claim.job.uid and claim.job.key in by_alias
    }
    if not stood_for:
        return [*claims]
    named = {claim.job.key: claim.job for claim in claims if claim.job.key not in stood_for}
    for key, job_key in stood_for.items():
        job = named.get(job_key, jobs[job_key].job)
        named[job_key] = replace(job, aliases=tuple(dict.fromkeys((*job.aliases, key.job_id))))
    return [
        replace(claim, job=named[stood_for.get(claim.job.key, claim.job.key)]) for claim in claims
    ]


def renamed(jobs: Jobs, holders: Mapping[JobKey, Job]) -> Renamed:
    """The stand-ins among the jobs whose job is known now."""
    return {
        key: job
        for job in holders.values()
        for alias in job.aliases
        if (key := JobKey(job.scheduler, alias)) not in holders
        and key in jobs
        and _stood_for(jobs[key], job)
    }


def _stood_for(state: JobState, job: Job) -> bool:
    """Whether it is the job's own pod, and not an earlier one of that name."""
    is_over = state.ended is not None and job.started is not None and job.started >= state.ended
    return not state.job.uid and not is_over


def taken_over(jobs: Jobs, renamed: Renamed, now: Instant) -> Jobs:
    """The jobs with what their stand-ins had, and without the stand-ins."""
    if not renamed:
        return jobs
    after = {key: state for key, state in jobs.items() if key not in renamed}
    for key, job in renamed.items():
        state, stand_in = after.get(job.key), jobs[key]
        if state is None:
            # First heard of by its name: the time since its start counts, as of any job that is new here.
            after[job.key] = replace(
                stand_in, job=job, unseen_since=job.started, counted=frozenset()
            )
            continue
        if not state.job.is_same_run(job):
            state = begun_anew(state, job, now.at_unix(stand_in.began))
        after[job.key] = _with(state, stand_in)
    return after


def _with(state: JobState, stand_in: JobState) -> JobState:
    usage, distribution = dict(state.usage), dict(state.distribution)
    for key, had in stand_in.usage.items():
        usage[key] = _added(usage[key], had) if key in usage else had
    for step, seconds in stand_in.distribution.items():
        distribution[step] = distribution.get(step, 0.0) + seconds
    aside = (*state.aside, *stand_in.aside)
    return replace(state, usage=usage, distribution=distribution, aside=aside)


def _added(first: GpuUsage, second: GpuUsage) -> GpuUsage:
    return replace(
        second,
        held_seconds=first.held_seconds + second.held_seconds,
        observed_seconds=first.observed_seconds + second.observed_seconds,
        utilization_seconds=first.utilization_seconds + second.utilization_seconds,
        sums=first.sums.plus(second.sums),
        recent=tuple(sorted((*first.recent, *second.recent))),
        waiting_seconds=known_sum((first.waiting_seconds, second.waiting_seconds)),
        shared_seconds=known_sum((first.shared_seconds, second.shared_seconds)),
    )


def in_history(history: Holdings, renamed: Renamed) -> Holdings:
    """Who held a GPU, in which the jobs stand in the place of their stand-ins: a window may still reach back there."""
    if not renamed:
        return history
    return tuple(
        each._replace(jobs=tuple(renamed.get(job.key, job) for job in each.jobs))
        for each in history
    )
