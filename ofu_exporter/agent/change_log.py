"""Logs the changes between two snapshots that an operator needs to know about, one line with a kind for each."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from ofu_exporter.serving.faults import Faults
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent
from ofu_exporter.values.job import JobKey
from ofu_exporter.values.reasons import Reason, SchedulerReason
from ofu_exporter.values.reported import Verdict
from ofu_exporter.values.snapshot import GpuView, JobView, SchedulerHealth, Snapshot

changes_log = logging.getLogger(__name__)

LATE_SECONDS = 60.0
"""Of a job that began longer than this before it was first seen here, the line says since when it runs."""


class Event(str, Enum):
    """What happened: the field `event` of a line in JSON or logfmt."""

    JOB_BEGAN = "job_began"
    JOB_ENDED = "job_ended"
    VERDICT_TURNED = "verdict_turned"
    GPU_LOST = "gpu_lost"
    GPU_BACK = "gpu_back"
    GPU_SHARED = "gpu_shared"
    GPU_UNKNOWN = "gpu_unknown"
    SOURCE_CHANGED = "source_changed"
    SCHEDULER_CHANGED = "scheduler_changed"
    PAUSED = "paused"
    RESUMED = "resumed"


class _Line(NamedTuple):
    event: Event
    subject: str
    """Id of the job, index of the GPU, name of the source or scheduler."""
    message: str
    level: int = logging.INFO


class ChangeLog:
    """Compares each snapshot with the one before. For one thread at a time."""

    def __init__(self, began: float, faults: Faults) -> None:
        """`began` is the Unix time at which the agent began: it logs no beginning of jobs that began before."""
        self._began = began
        self._faults = faults
        self._before: Snapshot | None = None
        self._source = ""
        self._verdicts: dict[JobKey, Verdict] = {}
        """The last verdict of each job that was one."""

    def take(self, snapshot: Snapshot) -> None:
        """Log what has happened between the snapshot before and this one. What cannot be described costs its kind."""
        before, self._before = self._before, snapshot
        lines = (
            _pause_lines(before, snapshot),
            self._source_lines(snapshot),
            _gpu_lines(before, snapshot),
            _scheduler_lines(before.schedulers if before else (), snapshot.schedulers),
            self._job_lines(before, snapshot),
            self._verdict_lines(snapshot),
        )
        for news in self._faults.made("log", list, lines):
            for line in news:
                extra = {"event": line.event.value, "subject": line.subject}
                changes_log.log(line.level, "%s", line.message, extra=extra)

    def _source_lines(self, snapshot: Snapshot) -> Iterator[_Line]:
        sentence = "" if snapshot.paused else _source_sentence(snapshot)
        if sentence and sentence != self._source:
            self._source = sentence
            yield _Line(Event.SOURCE_CHANGED, snapshot.source.name, sentence)

    def _job_lines(self, before: Snapshot | None, after: Snapshot) -> Iterator[_Line]:
        old_jobs = {view.job.key: view for view in before.jobs} if before else {}
        jobs = {view.job.key: view for view in after.jobs}
        for key, old in old_jobs.items():
            if key not in jobs and old.ended is None:
                yield _Line(Event.JOB_ENDED, key.job_id, f"{_job_name(old)} is no longer known")
        for key, view in jobs.items():
            earlier = old_jobs.get(key)
            is_same_run = earlier is not None and earlier.current_began == view.current_began
            is_new = not is_same_run and view.current_began >= self._began
            if is_new:
                yield _Line(Event.JOB_BEGAN, key.job_id, _began(view, after))
            ran_before = earlier is not None and earlier.ended is None
            if view.ended is not None and (is_new or ran_before):
                yield _Line(Event.JOB_ENDED, key.job_id, _ended(view))

    def _verdict_lines(self, snapshot: Snapshot) -> Iterator[_Line]:
        jobs = {view.job.key: view for view in snapshot.jobs}
        self._verdicts = {key: each for key, each in self._verdicts.items() if key in jobs}
        for key, view in jobs.items():
            verdict = view.reports.recent_verdict if view.reports else Verdict.INSUFFICIENT_DATA
            if verdict not in (Verdict.INSUFFICIENT_DATA, self._verdicts.get(key)):
                self._verdicts[key] = verdict
                yield _Line(Event.VERDICT_TURNED, key.job_id, _verdict(view))


def _pause_lines(before: Snapshot | None, after: Snapshot) -> Iterator[_Line]:
    was, is_now = (
        (shown.paused, shown.released) if shown else (False, False) for shown in (before, after)
    )
    if was == is_now:
        return
    if after.released:
        text = f"paused: no GPU, driver or host engine is held. {Reason.PAUSED.advice}"
        yield _Line(Event.PAUSED, "", text, logging.WARNING)
    elif after.paused:
        text = "not paused yet: a call that does not return still holds a GPU"
        yield _Line(Event.PAUSED, "", text, logging.WARNING)
    else:
        yield _Line(Event.RESUMED, "", "the pause is over")


def _source_sentence(snapshot: Snapshot) -> str:
    """Where the numbers come from; empty while that is not known."""
    names = {view.source or snapshot.source.name for view in snapshot.gpus}
    healths = (snapshot.source, *snapshot.other_sources)
    readable = (health for health in healths if health.up and health.reason is None)
    read = [health.name for health in readable if health.name in names]
    if read:
        return f"the GPUs are read through {' and '.join(read)}"
    reason = snapshot.source.reason
    if reason in (None, Reason.STARTING):
        return ""
    return f"no GPU can be read: source {snapshot.source.name}: {reason.value.replace('_', ' ')}"


def _gpu_lines(before: Snapshot | None, after: Snapshot) -> Iterator[_Line]:
    old_views = {view.gpu.key: view for view in before.gpus} if before else {}
    for view in after.gpus:
        yield from _changes_of_gpu(old_views.pop(view.gpu.key, None), view)
    for view in old_views.values():
        text = f"{_gpu_name(view)} is no longer seen"
        yield _Line(Event.GPU_LOST, view.gpu.index, text, logging.WARNING)
    for job, device in after.unknown_devices:
        if before is None or (job, device) not in before.unknown_devices:
            text = f"job {job.job_id} holds {device!r}, which is not a GPU measured here"
            yield _Line(Event.GPU_UNKNOWN, job.job_id, text, logging.WARNING)


def _changes_of_gpu(old: GpuView | None, view: GpuView) -> Iterator[_Line]:
    name, index = _gpu_name(view), view.gpu.index
    is_resumed = old and (old.reason, view.reason) == (Reason.PAUSED, Reason.STALE)
    if not is_resumed and (old is None or old.reason != view.reason):
        yield from _reason_lines(view)
    if view.share.basis == "instances" and (old is None or old.share.basis != "instances"):
        part = f"it counts as {view.share.ratio:.3f} GPUs, an equal part of its GPU"
        text = f"{name}: its slices are not known; {part}"
        yield _Line(Event.GPU_SHARED, index, text, logging.WARNING)
    if len(view.holders) > 1 and (old is None or old.holders != view.holders):
        holders = ", ".join(sorted(job.job_id for job in view.holders))
        text = f"{name} is held by several jobs ({holders}): its OFU is credited to none"
        yield _Line(Event.GPU_SHARED, index, text, logging.WARNING)


def _reason_lines(view: GpuView) -> Iterator[_Line]:
    name, reason = _gpu_name(view), view.reason
    if reason is None:
        yield _Line(Event.GPU_BACK, view.gpu.index, f"{name} is measured")
    elif reason not in (Reason.STARTING, Reason.PAUSED):
        detail = f": {view.detail}" if view.detail else ""
        text = f"{name} is not measured ({reason.value}{detail}). {reason.advice}"
        yield _Line(Event.GPU_LOST, view.gpu.index, text, logging.WARNING)


def _gpu_name(view: GpuView) -> str:
    instance = f"/{view.gpu.instance}" if view.gpu.instance else ""
    return f"GPU {view.gpu.index} ({view.gpu.uuid}{instance})"


def _scheduler_lines(
    before: Iterable[SchedulerHealth], after: Iterable[SchedulerHealth]
) -> Iterator[_Line]:
    old_healths = {health.name: health for health in before}
    for health in after:
        old, name = old_healths.get(health.name), health.name
        if old is not None and (old.reason, _kind(old)) == (health.reason, _kind(health)):
            continue
        if health.reason is None:
            yield _Line(Event.SCHEDULER_CHANGED, name, f"scheduler {name} says who owns the GPUs")
        elif health.reason is not SchedulerReason.STARTING:
            is_fault = health.reason is not SchedulerReason.NO_JOB_YET
            level = logging.WARNING if is_fault else logging.INFO
            why = f"{health.detail or health.reason.value}. {health.reason.advice}"
            text = f"scheduler {name} does not say who owns the GPUs: {why}"
            yield _Line(Event.SCHEDULER_CHANGED, name, text, level)


def _kind(health: SchedulerHealth) -> str:
    """The detail without its numbers, which change while the problem stays the same."""
    return re.sub(r"\d+", "", health.detail)


def _job_name(view: JobView) -> str:
    more = ", ".join(name for name in (view.job.name, view.job.user) if name)
    return f"job {view.job.job_id}" + (f" ({more})" if more else "")


def _began(view: JobView, snapshot: Snapshot) -> str:
    job = view.job.key
    gpus = [each.gpu.place for each in snapshot.gpus if job in {one.key for one in each.holders}]
    what = f"holds GPU {', '.join(gpus)}" if gpus else "has begun"
    again = f", run {len(view.runs)}" if len(view.runs) > 1 else ""
    started = view.job.started
    late = 0.0 if started is None else view.current_began - started
    since = f"; it began {lasting(late)} before it was seen" if late > LATE_SECONDS else ""
    return f"{_job_name(view)} {what}{again}{since}"


def _ended(view: JobView) -> str:
    """Its last run alone, whose length the line says."""
    run = view.runs[-1]
    lasted = lasting(max(0.0, (view.ended or view.updated) - view.current_began))
    result = "no OFU was measured"
    if run.observed_seconds > 0:
        ofu = percent(run.utilization_seconds / run.observed_seconds)
        result = f"OFU {ofu} over {run.observed_seconds / 3600:.2f} GPU-hours"
    return f"{_job_name(view)} has ended after {lasted}: {result}"


def _verdict(view: JobView) -> str:
    assert view.reports is not None
    mfu, ofu = view.reports.recent_mfu_ratio, view.reports.horizon.ofu
    words = {
        Verdict.AGREE: "agrees with OFU",
        Verdict.MFU_ABOVE_OFU: "reports an MFU above OFU",
        Verdict.MFU_BELOW_OFU: "reports an MFU below OFU",
    }[view.reports.recent_verdict]
    numbers = f"reported MFU {percent(mfu)}, OFU {percent(ofu)} of the same minutes"
    return f"{_job_name(view)} {words}: {numbers}"
