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
    """Unix time since which nobody has watched the job; None when this process watches it."""
    unsure_since: float | None = None
    """Monotonic time since which the job's scheduler does not answer; None when it does."""
    aside: tuple[tuple[Gpu, Window], ...] = ()
    """Windows since then: they count once the scheduler says that the job had the GPU all the while."""


Jobs = Mapping[JobKey, JobState]


class HeldGpu(NamedTuple):
    """A GPU that one job alone has."""

    gpu: Gpu
    job: Job
    waits: bool
    """Whether no program of the job has started yet."""


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
        if known is None or another_run(known.job, job):
            after[key] = JobState(job, now.unix, unseen_since=job.started)
        else:
            after[key] = _going_on(known, job)
    return after


def another_run(before: Job, now: Job) -> bool:
    """Whether a job is another one than an earlier job of the same id."""
    return bool(before.uid and now.uid) and before.uid != now.uid


def _going_on(state: JobState, job: Job) -> JobState:
    """A job that goes on. One that began before it seemed to end was there all the while, and nobody watched it."""
    unseen = state.unseen_since
    if state.ended is not None and job.started is not None and job.started < state.ended:
        unseen = state.ended
    return replace(state, job=job, ended=None, ended_at=None, unseen_since=unseen)


def _ended(state: JobState, now: Instant) -> JobState:
    """A job that has ended: when its scheduler last knew of it, if that does not know when."""
    if state.ended_at is not None:
        return state
    end = now if state.unsure_since is None else now.at(state.unsure_since)
    return replace(state, ended=end.unix, ended_at=end.monotonic, unsure_since=None, aside=())


def hold(jobs: Jobs, held: Iterable[HeldGpu], begin: Instant, end: float) -> dict[JobKey, JobState]:
    """Count the time from `begin` to `end` for every GPU that one job alone held.

    For a job that this process sees for the first time, the time since its start counts too, as
    held and not observed. A job whose scheduler does not answer waits until it does.
    """
    after = dict(jobs)
    for one in held:
        known, key = after[one.job.key], one.gpu.key
        if known.unsure_since is not None:
            continue
        unseen = jobs[one.job.key].unseen_since
        gap = _gap(unseen, begin.unix) if unseen is not None else 0.0
        usage = known.usage.get(key) or GpuUsage(one.gpu.index, key)
        waited = _waited(one, end - begin.monotonic, begin.unix - gap, gap)
        grown = replace(
            usage,
            held_seconds=usage.held_seconds + end - begin.monotonic + gap,
            waiting_seconds=_added(usage.waiting_seconds, waited),
        )
        after[one.job.key] = replace(known, usage={**known.usage, key: grown}, unseen_since=None)
    return after


def _gap(since: float, unix: float) -> float:
    gap = unix - since
    return gap if 0.0 < gap < _LONGEST_GAP_SECONDS else 0.0


def _waited(held: HeldGpu, seconds: float, unseen: float, gap: float) -> float | None:
    """How much of some held time, and of the gap before it that began at Unix time `unseen`, the job waited."""
    if held.waits:
        return seconds + gap
    if held.job.running_since is None:
        return None
    return min(max(held.job.running_since - unseen, 0.0), gap)


def _added(before: float | None, more: float | None) -> float | None:
    return before if more is None else (before or 0.0) + more


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


def views(jobs: Iterable[JobState], now: Instant) -> tuple[JobView, ...]:
    """What may be shown of every job; a job that only an earlier agent saw is left out."""
    return tuple(
        JobView(
            job=state.job,
            usage=tuple(state.usage.values()),
            distribution=state.distribution,
            began=state.began,
            ended=state.ended,
            updated=state.ended or _known_until(state, now),
        )
        for state in sorted(jobs, key=lambda state: state.job.key)
        if state.ended_at is None or state.unseen_since is None
    )


def _known_until(state: JobState, now: Instant) -> float:
    return now.unix if state.unsure_since is None else now.at(state.unsure_since).unix
