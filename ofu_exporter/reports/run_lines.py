"""Keeps how far lines of runs have come, so that a job goes on where another of the same owner ended.

Jobs are of one line if they state the same id of a run, and belong to one user, or on Kubernetes one namespace: nobody
changes the numbers of another's jobs by stating their id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.owner import Owner
from ofu_exporter.reports.progress import Countable, after_report, not_ahead, with_line
from ofu_exporter.values.job import Job
from ofu_exporter.values.progress import Progress, RunLine

MOST_OWNERS = 64
"""Most users whose lines are remembered; the one that was not heard of for longest is forgotten."""

_OwnerKey = tuple[str, str, str]
"""Scheduler, namespace, user."""


class RunLines:
    """The lines of each user. The report book calls it under its lock."""

    def __init__(self, unix: Callable[[], float]) -> None:
        self._unix = unix
        self._of_owner: dict[_OwnerKey, Mapping[str, RunLine]] = {}

    def after_report(
        self, progress: Progress, report: MfuReport, run: str, owner: Owner, end: float
    ) -> Progress:
        """A job's progress with one more report of a run, about the time until `end` (Unix)."""
        key = _key(owner.view.job) if owner.view and run else None
        line = self._of_owner.get(key, {}).get(run) if key else None
        now = self._unix()
        progress = not_ahead(progress, now)
        countable = _countable(owner, end, now, progress)
        after = after_report(progress, report, run, countable, line)
        if key and after.line and after is not progress:
            self._keep(key, run, after.line, mistaken=progress.line)
        return after

    def resume(self, job: Job, progress: Progress | None) -> None:
        """Continue with what an earlier agent knew of a job's lines."""
        key = _key(job)
        for run, line in progress.lines.items() if progress else ():
            if key and run:
                self._keep(key, run, line)

    def _keep(
        self, key: _OwnerKey, run: str, line: RunLine, mistaken: RunLine | None = None
    ) -> None:
        """Keep the further of a line and the kept one, unless that was `mistaken`, as the job itself had it before."""
        lines = self._of_owner.pop(key, {})
        before = lines.get(run, line)
        further = line if before == mistaken else max(line, before, key=lambda one: one.step)
        self._of_owner[key] = with_line(lines, run, further)
        while len(self._of_owner) > MOST_OWNERS:
            del self._of_owner[next(iter(self._of_owner))]


def _key(job: Job) -> _OwnerKey | None:
    """Whose lines a job may go on; None where its scheduler names no owner: then only its own."""
    if not job.user and not job.namespace:
        return None
    return job.scheduler, job.namespace, job.user


def _countable(owner: Owner, end: float, now: float, progress: Progress) -> Countable:
    view = owner.view
    if view is None:
        return Countable(now, end, 0.0)
    since = view.worked_since or view.current_began
    if since > now:  # by a clock that was set back since then
        since = progress.until or now
    return Countable(since, min(end, now), owner.gpu_count, view.start.is_open)
