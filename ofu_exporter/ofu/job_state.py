"""The totals of every job on this node: what it held, what was observed of it, and its OFU."""

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
"""OFU of a window is remembered to half a percentage point."""
GRACE_SECONDS = 300.0
"""The last values of a job that ended are shown this long: any scrape interval in use sees them."""
MOST_ENDED = 256
"""So many ended jobs are shown at most; beyond that the oldest give way."""
RECENT_SECONDS = 1260.0
"""So long it is remembered when a GPU was observed: a step of 20 minutes, as in RL, and a minute."""
GRAIN_SECONDS = 5.0
"""Windows that follow each other are remembered as one up to this length."""
_LONGEST_GAP_SECONDS = 90 * 86400.0
"""A start longer ago than this is no job's but a wrong clock's."""


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
    """The same on the monotonic clock."""
    unseen_since: float | None = None
    """Unix time since which nobody has watched it; None once this process does."""


Jobs = Mapping[JobKey, JobState]


class Observed(NamedTuple):
    """Sums over the GPU-seconds in which OFU was measured."""

    gpu_seconds: float
    utilization_seconds: float
    variance: float
    """Of the utilization seconds; s^2."""


def take_holders(jobs: Jobs, holders: Iterable[Job], now: Instant) -> dict[JobKey, JobState]:
    """The jobs after a change of who holds what: new ones begin, those that hold nothing end."""
    holding = {job.key: job for job in holders}
    after = {key: _ended(known, now) for key, known in jobs.items() if key not in holding}
    for key, job in holding.items():
        known = jobs.get(key)
        if known is None or _another_run(known.job, job):
            after[key] = JobState(job, now.unix, unseen_since=job.started)
        else:
            after[key] = replace(known, job=job, ended=None, ended_at=None)
    return after


def _another_run(before: Job, now: Job) -> bool:
    return bool(before.uid and now.uid) and before.uid != now.uid


def _ended(known: JobState, now: Instant) -> JobState:
    if known.ended_at is not None:
        return known
    return replace(known, ended=now.unix, ended_at=now.monotonic)


def hold(
    jobs: Jobs, held: Mapping[GpuKey, Job], gpus: Mapping[GpuKey, Gpu], begin: Instant, end: float
) -> dict[JobKey, JobState]:
    """Count the time from `begin` to `end` for every GPU that one job alone held.

    For a job that this process sees for the first time, the time since its start counts too, as
    held and not observed.
    """
    after = dict(jobs)
    for key, job in held.items():
        unseen = jobs[job.key].unseen_since
        seconds = end - begin.monotonic + (_gap(unseen, begin.unix) if unseen is not None else 0.0)
        known = after[job.key]
        usage = known.usage.get(key) or GpuUsage(gpus[key].index, key)
        grown = replace(usage, held_seconds=usage.held_seconds + seconds)
        after[job.key] = replace(known, usage={**known.usage, key: grown}, unseen_since=None)
    return after


def _gap(since: float, unix: float) -> float:
    gap = unix - since
    return gap if 0.0 < gap < _LONGEST_GAP_SECONDS else 0.0


def credit(known: JobState, gpu: Gpu, window: Window) -> JobState:
    """Count a window for the job that alone held the GPU in it."""
    if window.utilization is None:
        return known
    usage = known.usage.get(gpu.key) or GpuUsage(gpu.index, gpu.key)
    grown = replace(
        usage,
        observed_seconds=usage.observed_seconds + window.seconds,
        utilization_seconds=usage.utilization_seconds + window.utilization * window.seconds,
        recent=_recalled(usage.recent, window, window.utilization),
    )
    step = round(window.utilization / STEP)
    distribution = {**known.distribution, step: known.distribution.get(step, 0.0) + window.seconds}
    return replace(known, usage={**known.usage, gpu.key: grown}, distribution=distribution)


def _recalled(
    recent: tuple[Stretch, ...], window: Window, utilization: float
) -> tuple[Stretch, ...]:
    """With a window more, and without what is too old."""
    seconds = window.seconds
    new = Stretch(
        window.start, window.end, utilization * seconds, ((window.stderr or 0.0) * seconds) ** 2
    )
    oldest = window.end - RECENT_SECONDS
    first = next((place for place, known in enumerate(recent) if known.end > oldest), len(recent))
    last = recent[-1] if recent else None
    if last and last.end == new.start and new.end - last.start <= GRAIN_SECONDS:
        sums = last.utilization_seconds + new.utilization_seconds, last.variance + new.variance
        return (*recent[first:-1], Stretch(last.start, new.end, *sums))
    return (*recent[first:], new)


def observed(usage: Iterable[GpuUsage], start: float, end: float) -> Observed:
    """What was observed on some GPUs from `start` to `end`; of a window that is not all inside, its share."""
    seconds = utilization = variance = 0.0
    for one in usage:
        for known in reversed(one.recent):
            if known.end <= start:
                break
            inside = min(end, known.end) - max(start, known.start)
            if inside > 0:
                share = inside / (known.end - known.start)
                seconds += inside
                utilization += share * known.utilization_seconds
                variance += share * share * known.variance
    return Observed(seconds, utilization, variance)


def forget(jobs: Jobs, monotonic: float) -> dict[JobKey, JobState]:
    """Without the jobs that ended long enough ago, and without the oldest of too many that ended."""
    kept = {
        key: known
        for key, known in jobs.items()
        if known.ended_at is None or monotonic - known.ended_at < GRACE_SECONDS
    }
    ended = [known for known in kept.values() if known.ended_at is not None]
    if len(ended) > MOST_ENDED:
        ended.sort(key=lambda known: known.ended_at or 0.0)
        for known in ended[: len(ended) - MOST_ENDED]:
            del kept[known.job.key]
    return kept


def views(jobs: Iterable[JobState], now: Instant) -> tuple[JobView, ...]:
    """What may be said of every job; nothing of one that an earlier agent saw and this one has not."""
    return tuple(
        JobView(
            job=known.job,
            usage=tuple(known.usage.values()),
            distribution=known.distribution,
            began=known.began,
            ended=known.ended,
            updated=known.ended or now.unix,
        )
        for known in sorted(jobs, key=lambda known: known.job.key)
        if known.ended_at is None or known.unseen_since is None
    )
