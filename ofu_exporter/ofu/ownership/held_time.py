"""Counts the time for which jobs hold GPUs, so that no second of a GPU is held by two jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.ofu.ownership.job_state import Jobs, JobState
from ofu_exporter.values.gpu import Gpu, GpuKey, unnamed
from ofu_exporter.values.instant import Instant, Span
from ofu_exporter.values.job import GpuUsage, Job, JobKey

Credited = Mapping[GpuKey, tuple[Span, ...]]
"""The spans of each GPU on the monotonic clock that are credited to some job, oldest first, without overlap."""

_LONGEST_GAP_SECONDS = 90 * 86400.0
"""A job that seems to have started longer ago than this comes from a wrong clock."""
MOST_SPANS = 64
"""Most spans of one GPU that are told apart; when there are more, the first two are joined with the time between."""
MOST_GPUS = 512
"""Most GPUs and MIG instances that are remembered; above this number the one credited longest ago is forgotten."""


class GpuShare(NamedTuple):
    """A GPU or MIG instance that a job may hold."""

    gpu: Gpu
    share: float
    """The part of a whole GPU that it counts as."""


class JobGpu(NamedTuple):
    """A GPU that a job has."""

    gpu_share: GpuShare
    job: Job
    waits: bool
    """Whether no program of the job has started yet."""
    jobs: int
    """How many jobs have the GPU: each holds an equal part of its time."""


def hold(
    jobs: Jobs, credited: Credited, job_gpus: Iterable[JobGpu], begin: Instant, end: float
) -> tuple[dict[JobKey, JobState], Credited]:
    """Count the GPU-seconds from `begin` to `end` for every GPU that a job held; `job_gpus` has all jobs of a GPU.

    For a job that this process sees for the first time, the time since its start counts too, as held and not observed,
    but for what another job is credited with. A job whose scheduler does not answer waits until it does.
    """
    after, spans = dict(jobs), []
    for one in job_gpus:
        state, key = after[one.job.key], one.gpu_share.gpu.key
        if state.unsure_since is not None:
            continue
        start = begin.monotonic
        if state.unseen_since is not None and key not in state.counted:
            before = gap(state.unseen_since, begin.unix)
            start -= before
            since = min(begin.unix - before, state.held_since or math.inf)
            state = replace(state, counted=state.counted | {key}, held_since=since)
        seconds = free(credited, key, start, end) / one.jobs
        waited = _waited(one, credited, Span(start, end), begin)
        shared = seconds if one.jobs > 1 else None
        after[one.job.key] = with_held(state, one.gpu_share, seconds, waited, shared)
        spans.append((key, start))
    for key, start in spans:  # only now, because several jobs may have the same time
        credited = credit_span(credited, key, start, end)
    return after, credited


def _waited(one: JobGpu, credited: Credited, span: Span, begin: Instant) -> float | None:
    """How long the job waited in some held time, of which the part before `begin` was not watched."""
    start, end = span
    if not one.waits:
        if one.job.running_since is None:
            return None
        end = min(begin.at_unix(one.job.running_since).monotonic, begin.monotonic)
    return free(credited, one.gpu_share.gpu.key, start, end) / one.jobs if end > start else 0.0


def with_held(
    state: JobState,
    gpu_share: GpuShare,
    seconds: float,
    waited: float | None = None,
    shared: float | None = None,
) -> JobState:
    """Count time for which the job had a GPU, and the parts of it in which it waited or was not alone, where known."""
    gpu, share = gpu_share
    usage = state.usage.get(gpu.key) or GpuUsage(gpu.index, gpu.key)
    grown = replace(
        usage, held_seconds=usage.held_seconds + seconds * share, share=share, in_last_run=True
    )
    if waited is not None:
        grown = replace(grown, waiting_seconds=(usage.waiting_seconds or 0.0) + waited * share)
    if shared is not None:
        grown = replace(grown, shared_seconds=(usage.shared_seconds or 0.0) + shared * share)
    return replace(state, usage={**state.usage, gpu.key: grown})


def identified(jobs: Jobs, present: Iterable[GpuShare]) -> dict[JobKey, JobState]:
    """The jobs: what they held of a GPU that had not said which it is, they held of the one with its number."""
    named: dict[str, list[GpuShare]] = {}
    for one in present:
        if not one.gpu.is_unnamed:
            named.setdefault(one.gpu.index, []).append(one)
    return {key: _identified(state, named) for key, state in jobs.items()}


def _identified(state: JobState, named: Mapping[str, list[GpuShare]]) -> JobState:
    for key, had in state.usage.items():
        if key.uuid != unnamed(had.index) or had.index not in named or not had.in_last_run:
            continue
        usage = {each: one for each, one in state.usage.items() if each != key}
        state = replace(state, usage=usage)
        for one in named[had.index]:
            if key in state.counted:
                state = replace(state, counted=state.counted | {one.gpu.key})
            sums = had.held_seconds, had.waiting_seconds, had.shared_seconds
            state = with_held(state, one, *sums)
    return state


def credited_before(jobs: Iterable[JobState], now: Instant) -> Credited:
    """For which time each GPU is credited to the jobs that an earlier agent left."""
    credited: Credited = {}
    for state in jobs:
        start = now.at_unix(min(state.began, state.held_since or state.began))
        end = now.at_unix(state.ended or state.began)
        for key in state.usage:
            credited = credit_span(credited, key, start.monotonic, end.monotonic)
    return credited


def gap(since: float, unix: float) -> float:
    """Seconds between two instants of the wall clock; 0 where that cannot be."""
    seconds = unix - since
    return seconds if 0.0 < seconds < _LONGEST_GAP_SECONDS else 0.0


def free(credited: Credited, key: GpuKey, start: float, end: float) -> float:
    """Seconds of a GPU from `start` to `end` that are credited to nobody."""
    inside = (min(end, until) - max(start, since) for since, until in credited.get(key, ()))
    return max(0.0, end - start - sum(each for each in inside if each > 0.0))


def credit_span(credited: Credited, key: GpuKey, start: float, end: float) -> Credited:
    """The same, with one span more."""
    if end <= start:
        return credited
    spans = credited.get(key, ())
    if spans and spans[-1].start <= start <= spans[-1].end <= end:  # as at nearly every tick
        grown = (*spans[:-1], spans[-1]._replace(end=end))
    else:
        grown = _joined([*spans, Span(start, end)])
    after = {**credited, key: grown}
    if len(after) > MOST_GPUS:
        del after[min(after, key=lambda each: after[each][-1].end)]
    return after


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(span.end, joined[-1].end))
        else:
            joined.append(span)
    if len(joined) > MOST_SPANS:
        joined[:2] = [Span(joined[0].start, joined[1].end)]
    return tuple(joined)
