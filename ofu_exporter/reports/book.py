"""Takes in the reports of jobs, and compares them with the OFU of the jobs' GPUs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from ofu_exporter.errors import ReportError
from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS
from ofu_exporter.reports.cause_search import causes_or_none
from ofu_exporter.reports.entry import Entry, Policy, Receipt
from ofu_exporter.reports.messages import MfuAnswer, MfuReport, ModelBody
from ofu_exporter.reports.new_entries import new_entry, resumed_entry
from ofu_exporter.reports.owner import KnownOwners, Owner, ReportKey, UnownedKey, owner_of
from ofu_exporter.reports.reported_model import KeptModel, keep_model
from ofu_exporter.reports.run_lines import RunLines
from ofu_exporter.reports.stated import Completed, completed
from ofu_exporter.reports.work import WorkBudget
from ofu_exporter.support.rate_limit import RateLimit
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Job, JobKey
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Reported
from ofu_exporter.values.snapshot import JobView, Snapshot

EXPLAINED_AT_ONCE = 2
"""Most jobs whose causes are asked for in one tick."""
REPORTS_PER_SECOND = 200.0
"""Most reports of one job."""
REPORTS_AT_ONCE = 400
MOST_UNOWNED = 256
"""Most jobs without a GPU here whose reports are kept, where the settings keep them at all."""

Permission = Callable[[Job | None], None]
"""Raises ReportError if the sender may not report for this job; None = a job without a GPU here."""


class ReportBook:
    """The reports of all jobs. Any thread may call it."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        policy: Policy | None = None,
        clock: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._snapshot = snapshot
        self._owners = KnownOwners(None)
        self._clock = clock
        self._unix = unix
        self._lock = threading.Lock()
        self._pace: RateLimit[ReportKey] = RateLimit(REPORTS_PER_SECOND, REPORTS_AT_ONCE)
        self._entries: dict[ReportKey, Entry] = {}
        self.lines = RunLines(unix)
        self.work = WorkBudget(clock)
        self.search: Callable[[ReportKey], None] = self.explain
        """Called with jobs whose verdict has turned: finds the causes at once, or has another thread find them."""
        self.policy = policy or Policy()
        self.rejected: Counter[str] = Counter()
        """Reports that were refused, by reason."""

    def resume(self, key: JobKey, run: str, reported: Reported, began: float | None = None) -> None:
        """Continue with what an earlier agent knew of a job; `run` is its uid, `began` when its record began."""
        now = Instant(self._clock(), self._unix())
        self._entries[key] = resumed_entry(key.job_id, run, began, reported, now)

    def report(self, report: MfuReport, permission: Permission) -> MfuAnswer:
        """Take in a report and compare it with OFU. Raises ReportError."""
        receipt = self.take(report, permission)
        if self.is_unexplained(receipt):
            self.explain(receipt.owner.key)
        return self.answer(receipt)

    def submit(self, body: dict[str, Any]) -> MfuAnswer:
        """Take in a report that this program made itself. Raises ReportError."""
        try:
            report = MfuReport.model_validate(body)
        except ValidationError as error:
            self.reject(ReportRejection.MALFORMED)
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise ReportError(ReportRejection.MALFORMED, field, first["msg"]) from error
        return self.report(report, _anybody)

    def take_trace(self, job_id: str, trace: dict[str, Any], counters: Mapping[str, float]) -> None:
        """Take in a trace that this agent had taken, with what its counters saw meanwhile. Raises ReportError."""
        self.submit({"job_id": job_id, "trace": trace})
        with self._lock:
            entry = self._entries.get(self._owner(job_id).key)
            if entry is not None and entry.trace is not None:
                entry.trace = replace(entry.trace, counters=counters)

    def reject(self, reason: ReportRejection) -> None:
        """Count a report that was refused before it came here."""
        with self._lock:
            self.rejected[reason.value] += 1

    def take(self, report: MfuReport, permission: Permission, sender: str = "") -> Receipt:
        """Take in a report of an address. Raises ReportError, which is counted."""
        owner: Owner | None = None
        try:
            owner = self._owner(report.job_id)
            permission(owner.view.job if owner.view else None)
            owner.check_effect(report)
            with self._lock:
                self._check_pace(owner.key)
                before = self._follow_run(owner)
                facts = before.reported_facts if before else None
            # It may count a model: not under the lock.
            count = partial(self._counted, report.job_id, sender)
            whole = completed(report, facts, owner.hardware, self.policy.recipes, count)
            with self._lock:
                return self._take(whole, owner)
        except ReportError as error:
            self.reject(error.reason)
            if owner is not None and owner.view is not None:
                with self._lock:
                    entry = self._follow_run(owner) or new_entry(owner)
                    entry.outcomes[error.reason.value] += 1
                    self._entries[owner.key] = entry
            raise

    def _counted(self, job_id: str, sender: str, model: ModelBody) -> KeptModel:
        """Count a model within the time that the job and the address have. Raises ReportError."""
        self.work.check(job_id, sender)
        with self.work.measured(job_id, sender):
            return keep_model(model)

    def _check_pace(self, key: ReportKey) -> None:
        wait = self._pace.ask(key, self._clock())
        if wait:
            detail = f"the job reports more than {REPORTS_PER_SECOND:g} times a second"
            raise ReportError(ReportRejection.TOO_MANY, "job_id", detail, retry_after=wait)

    def _owner(self, job_id: str) -> Owner:
        """The job of this id. Raises ReportError if the job is not here but has to be."""
        owners, snapshot = self._owners, self._snapshot()
        if owners.snapshot is not snapshot:
            owners = self._owners = KnownOwners(snapshot)
        of_job = owners.of(job_id)
        if of_job is not None:
            return of_job
        if self.policy.unowned:
            return Owner(UnownedKey(job_id))
        detail = f"{job_id!r} holds no GPU that this agent measures"
        raise ReportError(ReportRejection.UNKNOWN_JOB, "job_id", detail)

    def _take(self, report: Completed, owner: Owner) -> Receipt:
        now = Instant(self._clock(), self._unix())
        entry = self._entry(owner, now.monotonic)
        receipt = entry.take(report, owner, self.lines, self.policy, now)
        self._entries[owner.key] = entry
        return receipt

    def _entry(self, owner: Owner, now: float) -> Entry:
        """The entry of a job, a new one where there is none. Raises ReportError when there are too many jobs."""
        entry = self._follow_run(owner)
        if entry is not None:
            return entry
        if owner.view is None:
            self._forget_unowned(now)
            if sum(isinstance(key, UnownedKey) for key in self._entries) >= MOST_UNOWNED:
                detail = f"{MOST_UNOWNED} jobs without a GPU here have reported already"
                raise ReportError(ReportRejection.TOO_MANY_JOBS, "job_id", detail)
        return new_entry(owner)

    def _follow_run(self, owner: Owner) -> Entry | None:
        """Bring the entry of a job to its current run, which goes on with the sums of earlier ones, and return it.

        That of another job of this id is forgotten.
        """
        entry = self._entries.get(owner.key)
        if entry is not None and not entry.is_of(owner):
            del self._entries[owner.key]
            return None
        if entry is not None:
            entry = self._entries[owner.key] = entry.of_run(owner, self._unix())
        return entry

    def is_unexplained(self, receipt: Receipt) -> bool:
        """Whether the job's divergence is one whose causes have not been looked for, and there is time to look."""
        key = receipt.owner.key
        with self._lock:
            entry = self._entries.get(key)
            is_due = entry is not None and entry.inquiry.is_due(entry.question, self._clock())
        return is_due and self.work.has_time(key.job_id)

    def explain(self, key: ReportKey) -> None:
        """Look for the causes of a divergence: 1 to 100 ms, a second for the largest recipe, not under the lock."""
        with self._lock:
            entry = self._entries.get(key)
            question = entry.question if entry else None
            if entry is None or question is None or entry.inquiry.is_running:
                return
            entry.inquiry.is_running = True
        with self.work.measured(key.job_id):
            causes = causes_or_none(key.job_id, question)
        with self._lock:
            entry.inquiry.take(question, causes, self._clock())

    def answer(self, receipt: Receipt) -> MfuAnswer:
        """The answer to a report: what the hardware did in its interval, and over the horizon."""
        owner = receipt.owner
        with self._lock:
            # The job may have got its first GPU since the report was taken; then its entry is a new one.
            entry = self._follow_run(owner) or new_entry(owner)
            return entry.answer(receipt, self.policy, self._unix())

    def reviewed(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with what its jobs have reported; jobs that left the snapshot are forgotten.

        If a verdict has changed, its causes are asked for here.
        """
        now = snapshot.at
        with self._lock:
            if not self._entries:
                return snapshot
            self._take_over_stand_ins(snapshot)
            self._forget(snapshot)
            for view in snapshot.jobs:
                owner = owner_of(view, snapshot)
                if (entry := self._follow_run(owner)) is not None:
                    entry.compare(owner, self.policy, now)
            turned = [
                key for key, one in self._entries.items() if one.inquiry.is_turned(one.question)
            ]
        for key in [each for each in turned if self.work.has_time(each.job_id)][:EXPLAINED_AT_ONCE]:
            self.search(key)
        with self._lock:
            jobs = tuple(self._reviewed(view, now) for view in snapshot.jobs)
            unowned = tuple(
                (key.job_id, entry.shown(self.policy, now))
                for key, entry in self._entries.items()
                if isinstance(key, UnownedKey)
            )
        return replace(snapshot, jobs=jobs, unowned_reports=unowned)

    def _reviewed(self, view: JobView, now: float) -> JobView:
        entry = self._entries.get(view.job.key)
        return view if entry is None else replace(view, reports=entry.shown(self.policy, now))

    def _take_over_stand_ins(self, snapshot: Snapshot) -> None:
        """Give what a pod reported while its job was not known to the job."""
        shown = {view.job.key for view in snapshot.jobs}
        pods = [
            (view.job.key, pod)
            for view in snapshot.jobs
            for alias in view.job.aliases
            if (pod := (view.job.scheduler, alias)) in self._entries and pod not in shown
        ]
        for key, pod in pods:
            if not self._entries[pod].run:
                entry = self._entries.pop(pod)
                entry.began = None
                of_job = self._entries.get(key)
                self._entries[key] = entry if of_job is None else of_job.add(entry)

    def _forget(self, snapshot: Snapshot) -> None:
        """Forget jobs that left the snapshot, and entries without a GPU of jobs that now have one.

        An entry that an earlier agent left waits until its job is seen.
        """
        keys = {view.job.key for view in snapshot.jobs}
        owned = {name for each in snapshot.jobs for name in (each.job.job_id, *each.job.aliases)}
        for key, entry in [*self._entries.items()]:
            gone = key not in keys and snapshot.at - entry.heard_at > GRACE_SECONDS
            if (key.job_id in owned) if isinstance(key, UnownedKey) else gone:
                del self._entries[key]
        self._forget_unowned(snapshot.at)

    def _forget_unowned(self, now: float) -> None:
        for key, entry in [*self._entries.items()]:
            if isinstance(key, UnownedKey) and now - entry.heard_at > self.policy.horizon:
                del self._entries[key]


def _anybody(job: Job | None) -> None:
    """Permit everything, because the site itself has configured these reports."""
