"""Keeps what is remembered of every job on this node: its runs, what was observed of its GPUs, and its OFU."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ofu_exporter.ofu.observed import spans_of, with_spans
from ofu_exporter.ofu.ownership.starting import after_window, settled, start_ended, start_opened
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import GpuUsage, Job, JobKey, Run, current_run
from ofu_exporter.values.reading import Window
from ofu_exporter.values.snapshot import JobView

DISTRIBUTION_STEP = 0.005
"""Windows are sorted by OFU in steps of this size, half a percentage point."""
GRACE_SECONDS = 300.0
"""The last values of a job that ended are shown this long: any scrape interval in use sees them."""
MOST_RUNS = 32
"""Most runs of a job that are told apart; when there are more, the first two are joined."""
MOST_ENDED = 256
"""Most ended jobs that are shown; above this number the oldest give way."""
PROMPT_SECONDS = 60.0
"""The start of a job is watched if this agent sees the job so soon after it."""


@dataclass(frozen=True)
class JobState(JobView):
    """What is remembered of one job from tick to tick."""

    ended_at: float | None = None
    """The instant of its end on the monotonic clock."""
    unseen_since: float | None = None
    """Unix time since which nobody had watched the job; None where that time is counted."""
    counted: frozenset[GpuKey] = frozenset()
    """The GPUs for which the time since then is counted: a GPU may be found later than its neighbours."""
    unsure_since: Instant | None = None
    """When the job's scheduler ceased to answer; None when it answers."""
    aside: tuple[tuple[Gpu, Window], ...] = ()
    """Windows since then: they count once the scheduler says that the job had the GPU all the while."""

    @property
    def is_seen(self) -> bool:
        """Whether this process has watched the job, and not an earlier agent only."""
        return self.unseen_since is None or bool(self.counted)


Jobs = Mapping[JobKey, JobState]


def take_holders(
    jobs: Jobs,
    holders: Iterable[Job],
    now: Instant,
    believed_since: float | None,
    is_watched: bool,
) -> dict[JobKey, JobState]:
    """The jobs after a change of who holds what: new ones begin, those that hold nothing end.

    No job is believed to have begun before `believed_since` (Unix time) that is new now. `is_watched`: the agent has
    heard of jobs before.
    """
    holding = {job.key: job for job in holders}
    after = {key: _ended(state, now) for key, state in jobs.items() if key not in holding}
    for key, job in holding.items():
        job_before = jobs.get(key)
        if job_before is None or job_before.job.is_anothers(job):
            since = job.started and max(job.started, believed_since or job.started)
            new = JobState(job, now.unix, unseen_since=since, restarts=job.restarts or 0)
            is_seen = is_watched if since is None else since > now.unix - PROMPT_SECONDS
            after[key] = replace(new, start=start_opened(new.start, now)) if is_seen else new
        elif not job_before.job.is_same_run(job):
            after[key] = begun_anew(job_before, job, now)
        else:
            after[key] = _going_on(job_before, job, now)
    return after


def _going_on(state: JobState, job: Job, now: Instant) -> JobState:
    """A job that goes on. If it began before it seemed to have ended, it ran all the time, and nobody watched it."""
    after = replace(state, job=job, ended=None, ended_at=None)
    restarts = _restarts(state, job)
    if restarts > state.restarts:
        after = replace(after, restarts=restarts, start=start_opened(state.start, now))
    if state.ended is None or job.started is None or job.started >= state.ended:
        return after
    return replace(after, unseen_since=state.ended, counted=frozenset())


def _restarts(state: JobState, job: Job) -> int:
    """How often a job that goes on was started again. Its scheduler's count may begin anew, with other pods.

    A count that is heard of for the first time, by this agent or after a gap, is of what is known already too.
    """
    pods = {*state.job.pod_uids}
    grown = int(bool(pods and job.pod_uids) and pods.isdisjoint(job.pod_uids))
    before, now = (state.job.restarts, state.job.cycles), (job.restarts, job.cycles)
    counted = sum(each or 0 for each in now)
    if any(old is None and new is not None for old, new in zip(before, now, strict=True)):
        return max(state.restarts + grown, counted)
    return state.restarts + max(grown, counted - sum(each or 0 for each in before))


def begun_anew(state: JobState, job: Job, now: Instant) -> JobState:
    """A job with a new run: its totals go on, so that no counter on the page goes back."""
    state = _ended(state, now)
    ended = now.unix if state.ended is None else state.ended
    lasted = (state.current_began, ended)
    last = current_run(state.job.uid, lasted, state.usage.values(), state.earlier)
    earlier = [*state.earlier, last._replace(worked_since=_unix(state.start.worked_at, now))]
    if len(earlier) >= MOST_RUNS:
        earlier[:2] = [_joined(*earlier[:2])]
    return replace(
        state,
        job=job,
        usage={key: replace(usage, in_last_run=False) for key, usage in state.usage.items()},
        earlier=tuple(earlier),
        run_began=now.unix,
        ended=None,
        ended_at=None,
        unseen_since=None if job.started is None else max(job.started, ended),
        counted=frozenset(),
        start=start_opened(state.start, now),
        restarts=max(state.restarts + 1, job.restarts or 0),
    )


def _unix(monotonic: float | None, now: Instant) -> float | None:
    return None if monotonic is None else now.at(monotonic).unix


def _joined(first: Run, second: Run) -> Run:
    return second._replace(
        began=first.began,
        held_seconds=first.held_seconds + second.held_seconds,
        observed_seconds=first.observed_seconds + second.observed_seconds,
        utilization_seconds=first.utilization_seconds + second.utilization_seconds,
        worked_since=first.worked_since,
    )


def _ended(state: JobState, now: Instant) -> JobState:
    """A job that has ended. If its scheduler was silent, it ended when the silence began."""
    if state.ended_at is not None:
        return state
    end = state.unsure_since or now
    return replace(
        state,
        ended=end.unix,
        ended_at=end.monotonic,
        unsure_since=None,
        aside=(),
        start=settled(state.start),
    )


def all_counted(jobs: Jobs) -> dict[JobKey, JobState]:
    """The jobs once every GPU is known: a GPU that a job gets from now on was not held before."""
    return {
        key: replace(state, unseen_since=None, counted=frozenset()) if state.counted else state
        for key, state in jobs.items()
    }


def credit(state: JobState, gpu: Gpu, window: Window) -> JobState:
    """Count a window for the job that alone held the GPU in it."""
    if window.utilization is None:
        return state
    usage = state.usage.get(gpu.key) or GpuUsage(gpu.index, gpu.key)
    gpu_seconds = window.gpu_seconds
    grown = replace(
        usage,
        observed_seconds=usage.observed_seconds + window.observed_seconds,
        utilization_seconds=usage.utilization_seconds + window.used_seconds,
        sums=usage.sums.plus(window.sums),
        recent=with_spans(usage.recent, spans_of(window, window.utilization)),
        share=window.share,
    )
    start = after_window(state.start, gpu.key, window)
    step = round(window.utilization / DISTRIBUTION_STEP)
    distribution = {**state.distribution, step: state.distribution.get(step, 0.0) + gpu_seconds}
    return replace(
        state,
        usage={**state.usage, gpu.key: grown},
        distribution=distribution,
        start=start if state.ended_at is None else settled(start),
    )


def of_earlier_run(before: JobState, after: JobState) -> JobState:
    """The job, whose totals grew by a window of the run before the current one."""
    *earlier, last = after.earlier
    last = last._replace(
        observed_seconds=last.observed_seconds + after.observed_seconds - before.observed_seconds,
        utilization_seconds=last.utilization_seconds
        + after.utilization_seconds
        - before.utilization_seconds,
    )
    return replace(after, earlier=(*earlier, last))


def with_steps(
    jobs: Jobs, stepped: Collection[tuple[JobKey, str]], last_tick: float
) -> dict[JobKey, JobState]:
    """The jobs; a run that has stated a step by the last tick starts no more, nor did it in the tensor work before."""
    after = dict(jobs)
    for key, uid in stepped:
        state = after.get(key)
        if state is not None and state.start.is_open and state.job.uid == uid:
            work = (one.start for one in state.start.unsure if one.works)
            after[key] = replace(
                state, start=start_ended(state.start, min(work, default=last_tick))
            )
    return after


def forget(jobs: Jobs, monotonic: float) -> dict[JobKey, JobState]:
    """The jobs without those that ended long ago; of too many that ended lately, the oldest go too."""
    shown = {
        key: state
        for key, state in jobs.items()
        if state.ended_at is None or monotonic - state.ended_at < GRACE_SECONDS
    }
    ended = [state for state in shown.values() if state.ended_at is not None]
    if len(ended) > MOST_ENDED:
        ended.sort(key=lambda state: state.ended_at or 0.0)
        for state in ended[: len(ended) - MOST_ENDED]:
            del shown[state.job.key]
    return shown


def views(jobs: Iterable[JobState], now: Instant) -> tuple[JobView, ...]:
    """What may be shown of every job; a job that only an earlier agent saw is left out."""
    return tuple(
        replace(
            state,
            updated=state.ended or (state.unsure_since or now).unix,
            worked_since=_unix(state.start.worked_at, now),
        )
        for state in sorted(jobs, key=lambda state: state.job.key)
        if state.ended_at is None or state.is_seen
    )
