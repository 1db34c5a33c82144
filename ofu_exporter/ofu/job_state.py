"""Keeps the totals of every job on this node: the time it held GPUs, how much of that was observed, and its OFU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage, Job, JobKey, Stretch
from ofu_exporter.values.reading import Window
from ofu_exporter.values.snapshot import JobView

STEP = 0.005
"""The OFU of a window is remembered to half a percentage point."""
GRACE_SECONDS = 300.0
"""The last values of a job that ended are shown this long: any scrape interval in use sees them."""
MOST_ENDED = 256
"""Most ended jobs that are shown; above this number the oldest give way."""
RECENT_SECONDS = 1260.0
"""Seconds for which it is remembered when a GPU was observed: a step of 20 minutes, as in RL, and a minute."""
GRAIN_SECONDS = 5.0
"""Windows that follow each other are remembered as one up to this length."""
_LONGEST_GAP_SECONDS = 90 * 86400.0
"""A start longer ago than this is a wrong clock's, and no job's."""


@dataclass(frozen=True, slots=True)
class JobState:
    """What is remembered of one job from tick to tick."""

    job: Job
    began: float
    """Unix time."""
    usage: Mapping[GpuKey, GpuUsage] = field(default_factory=dict)
    distribution: Mapping[int, float] = field(default_factory=dict)
    ended: float | None = None
    """Unix time."""
    ended_at: float | None = None
    """The same instant on the monotonic clock."""
    unseen_since: float | None = None
    """Unix time since which nobody had watched the job; None where that time is counted."""
    counted: frozenset[GpuKey] = frozenset()
    """The GPUs for which the time since then is counted: a GPU may be found later than its neighbours."""

    @property
    def is_seen(self) -> bool:
        """Whether this process has watched the job, and not an earlier agent only."""
        return self.unseen_since is None or bool(self.counted)


Jobs = Mapping[JobKey, JobState]


class Observed(NamedTuple):
    """Sums over the GPU-seconds in which OFU was measured."""

    gpu_seconds: float
    utilization_seconds: float
    variance: float
    """Variance of the utilization seconds; s^2."""


def take_holders(jobs: Jobs, holders: Iterable[Job], now: Instant) -> dict[JobKey, JobState]:
    """The jobs after a change of who holds what: new ones begin, those that hold nothing end."""
    holding = {job.key: job for job in holders}
    after = {key: _ended(state, now) for key, state in jobs.items() if key not in holding}
    for key, job in holding.items():
        known = jobs.get(key)
        if known is None or not known.job.is_same_run(job):
            after[key] = JobState(job, now.unix, unseen_since=job.started)
        else:
            after[key] = replace(known, job=job, ended=None, ended_at=None)
    return after


def _ended(state: JobState, now: Instant) -> JobState:
    if state.ended_at is not None:
        return state
    return replace(state, ended=now.unix, ended_at=now.monotonic)


def hold(
    jobs: Jobs, held: Mapping[GpuKey, Job], gpus: Mapping[GpuKey, Gpu], begin: Instant, end: float
) -> dict[JobKey, JobState]:
    """Count the time from `begin` to `end` for every GPU that one job alone held.

    For a job that this process sees for the first time, the time since its start counts too, as
    held and not observed.
    """
    after = dict(jobs)
    for key, job in held.items():
        known = after[job.key]
        seconds = end - begin.monotonic
        if known.unseen_since is not None and key not in known.counted:
            seconds += gap(known.unseen_since, begin.unix)
            known = replace(known, counted=known.counted | {key})
        after[job.key] = with_held(known, gpus[key], seconds)
    return after


def with_held(state: JobState, gpu: Gpu, seconds: float) -> JobState:
    """Count time for which the job had a GPU."""
    usage = state.usage.get(gpu.key) or GpuUsage(gpu.index, gpu.key)
    grown = replace(usage, held_seconds=usage.held_seconds + seconds)
    return replace(state, usage={**state.usage, gpu.key: grown})


def all_counted(jobs: Jobs) -> dict[JobKey, JobState]:
    """The jobs once every GPU is known: one that a job gets from now on was not held before."""
    return {
        key: replace(state, unseen_since=None, counted=frozenset()) if state.counted else state
        for key, state in jobs.items()
    }


def gap(since: float, unix: float) -> float:
    """Seconds between two instants of the wall clock; 0 where that cannot be."""
    seconds = unix - since
    return seconds if 0.0 < seconds < _LONGEST_GAP_SECONDS else 0.0


def credit(state: JobState, gpu: Gpu, window: Window) -> JobState:
    """Count a window for the job that alone held the GPU in it."""
    if window.utilization is None:
        return state
    usage = state.usage.get(gpu.key) or GpuUsage(gpu.index, gpu.key)
    grown = replace(
        usage,
        observed_seconds=usage.observed_seconds + window.seconds,
        utilization_seconds=usage.utilization_seconds + window.utilization * window.seconds,
        recent=_with_window(usage.recent, window, window.utilization),
    )
    step = round(window.utilization / STEP)
    distribution = {**state.distribution, step: state.distribution.get(step, 0.0) + window.seconds}
    return replace(state, usage={**state.usage, gpu.key: grown}, distribution=distribution)


def _with_window(
    recent: tuple[Stretch, ...], window: Window, utilization: float
) -> tuple[Stretch, ...]:
    """The stretches with one window more, and without those that are too old."""
    seconds = window.seconds
    new = Stretch(
        window.start, window.end, utilization * seconds, ((window.stderr or 0.0) * seconds) ** 2
    )
    oldest = window.end - RECENT_SECONDS
    first = next((place for place, each in enumerate(recent) if each.end > oldest), len(recent))
    last = recent[-1] if recent else None
    if last and last.end == new.start and new.end - last.start <= GRAIN_SECONDS:
        sums = last.utilization_seconds + new.utilization_seconds, last.variance + new.variance
        return (*recent[first:-1], Stretch(last.start, new.end, *sums))
    return (*recent[first:], new)


def observed(usage: Iterable[GpuUsage], start: float, end: float) -> Observed:
    """What was observed on some GPUs from `start` to `end`; a stretch that is partly inside counts by its share."""
    seconds = utilization = variance = 0.0
    for each in usage:
        for stretch in reversed(each.recent):
            if stretch.end <= start:
                break
            inside = min(end, stretch.end) - max(start, stretch.start)
            if inside > 0:
                share = inside / (stretch.end - stretch.start)
                seconds += inside
                utilization += share * stretch.utilization_seconds
                variance += share * share * stretch.variance
    return Observed(seconds, utilization, variance)


def forget(jobs: Jobs, monotonic: float) -> dict[JobKey, JobState]:
    """The jobs without those that ended long enough ago, and without the oldest of too many that ended."""
    kept = {
        key: state
        for key, state in jobs.items()
        if state.ended_at is None or monotonic - state.ended_at < GRACE_SECONDS
    }
    ended = [state for state in kept.values() if state.ended_at is not None]
    if len(ended) > MOST_ENDED:
        ended.sort(key=lambda state: state.ended_at or 0.0)
        for state in ended[: len(ended) - MOST_ENDED]:
            del kept[state.job.key]
    return kept


def views(jobs: Iterable[JobState], unix: float) -> tuple[JobView, ...]:
    """What may be shown of every job; a job that only an earlier agent saw is left out."""
    return tuple(
        JobView(
            job=state.job,
            usage=tuple(state.usage.values()),
            distribution=state.distribution,
            began=state.began,
            ended=state.ended,
            updated=state.ended or unix,
        )
        for state in sorted(jobs, key=lambda state: state.job.key)
        if state.ended_at is None or state.is_seen
    )
