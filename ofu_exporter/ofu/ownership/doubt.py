"""Sets aside what jobs did while their scheduler did not answer, until it says which of them still run.

A job may have ended in that time, and nobody knows when. So that time is shown only after the scheduler has
answered. It counts for a job that kept the GPU, and for nobody where the job is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from ofu_exporter.ofu.ownership.held_time import Credited, JobGpu, hold
from ofu_exporter.ofu.ownership.holders import HANDOVER_SECONDS, Holding
from ofu_exporter.ofu.ownership.job_state import Jobs, JobState, credit
from ofu_exporter.ofu.ownership.starting import after_window
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import JobKey
from ofu_exporter.values.reading import Window

MOST_ASIDE = 8192
"""Most windows of a job that are set aside; later windows count for nobody."""


def credit_or_set_aside(state: JobState, gpu: Gpu, window: Window) -> JobState:
    """Count a window for the job that held the GPU in it, or set it aside until the holder is sure.

    The last window of a job was cut at the job's end and is the job's, unless the job had ended before that, unnoticed.
    """
    if state.ended_at is not None and window.end > state.ended_at + HANDOVER_SECONDS:
        return state
    if state.unsure_since is None or window.end <= state.unsure_since.monotonic:
        return credit(state, gpu, window)
    if len(state.aside) >= MOST_ASIDE:
        return state
    return replace(state, aside=(*state.aside, (gpu, window)))


def credit_wait(state: JobState, gpu: Gpu, window: Window) -> JobState:
    """Count a window before the first program of a job: the GPU's work in it is nobody's, its time is the start's."""
    if state.ended_at is not None or state.unsure_since is not None:
        return state
    return replace(
        state, start=after_window(state.start, gpu.key, window._replace(tensor_active=0.0))
    )


def marked(jobs: Jobs, unsure: Set[str], now: Instant) -> dict[JobKey, JobState]:
    """The jobs; those whose scheduler does not answer are marked as in doubt from now on, or from when they were."""
    return {key: _marked(state, unsure, now) for key, state in jobs.items()}


def _marked(state: JobState, unsure: Set[str], now: Instant) -> JobState:
    in_doubt = state.job.scheduler in unsure and state.ended_at is None
    if in_doubt == (state.unsure_since is not None):
        return state
    return replace(state, unsure_since=now if in_doubt else None, aside=())


def confirmed(
    jobs: Jobs, credited: Credited, unsure: Set[str], kept: Iterable[JobGpu], now: Instant
) -> tuple[Jobs, Credited]:
    """The jobs whose schedulers answer again, with what was set aside for the GPUs that they kept."""
    of_job: dict[JobKey, list[JobGpu]] = {}
    silences: dict[Instant, list[JobGpu]] = {}
    for one in kept:
        since = jobs[one.job.key].unsure_since
        if since is not None and one.job.scheduler not in unsure:
            of_job.setdefault(one.job.key, []).append(one)
            silences.setdefault(since, []).append(one)
    after = {**jobs, **{key: replace(jobs[key], unsure_since=None, aside=()) for key in of_job}}
    for since, gpus in silences.items():
        after, credited = hold(after, credited, gpus, since, now.monotonic)
    for key, gpus in of_job.items():
        aside = jobs[key].aside
        after[key] = _with_windows(after[key], aside, {one.gpu_share.gpu.key for one in gpus})
    return after, credited


def lost_since(
    jobs: Jobs, had: Iterable[JobGpu], kept: Iterable[JobGpu], ends: Mapping[JobKey, Instant]
) -> dict[GpuKey, tuple[Holding]]:
    """For each GPU that its job did not keep through a silence: from the begin of the silence on, nobody has it.

    A window of that time is then credited to no job, even where it comes with or after the answer.
    """
    still = {(one.gpu_share.gpu.key, one.job.key) for one in kept}
    return {
        one.gpu_share.gpu.key: (Holding(since.monotonic, ()),)
        for one in had
        if (since := jobs[one.job.key].unsure_since) is not None
        and one.job.key not in ends
        and (one.gpu_share.gpu.key, one.job.key) not in still
    }


def ended_in_doubt(
    jobs: Jobs, credited: Credited, had: Iterable[JobGpu], ends: Mapping[JobKey, Instant]
) -> tuple[Jobs, Credited]:
    """The jobs, with what was set aside for those of which their scheduler says afterwards when they ended."""
    after = dict(jobs)
    for key, instant in ends.items():
        state = jobs.get(key)
        if state is None or state.unsure_since is None:
            continue
        since = state.unsure_since
        end = max(since, instant)
        gpus = [one for one in had if one.job.key == key]
        inside = [each for each in state.aside if each[1].end <= end.monotonic]
        sure = {key: replace(state, unsure_since=None, aside=())}
        sure, credited = hold(sure, credited, gpus, since, end.monotonic)
        whole = _with_windows(sure[key], inside, {one.gpu_share.gpu.key for one in gpus})
        after[key] = replace(whole, ended=end.unix, ended_at=end.monotonic)
    return after, credited


def _with_windows(
    state: JobState, aside: Iterable[tuple[Gpu, Window]], gpus: Set[GpuKey]
) -> JobState:
    for gpu, window in aside:
        if gpu.key in gpus:
            state = credit(state, gpu, window)
    return state
