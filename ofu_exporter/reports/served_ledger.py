"""Keeps what the pulled engines of every job served, over other settings, runs of a job and restarts of the agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ofu_exporter.jobs.kept_served import KeptCounters, KeptJob, KeptServed
from ofu_exporter.jobs.served_totals import as_served, served_totals
from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS
from ofu_exporter.reports.engine_pages import short_hash
from ofu_exporter.reports.served import ServedTally
from ofu_exporter.settings import PullSetting
from ofu_exporter.values.served import Served
from ofu_exporter.values.snapshot import Snapshot


class _Engine(NamedTuple):
    setting: PullSetting
    tally: ServedTally


class Ledger:
    """The sums of every job: those of the tallies in use, and of those before them."""

    def __init__(self, snapshot: Callable[[], Snapshot | None] = lambda: None) -> None:
        self.lock = threading.Lock()
        """Held while a tally changes or is copied."""
        self._snapshot = snapshot
        self._earlier: dict[str, Served] = {}
        self._began: dict[str, float | None] = {}
        """When the record began that the sums of a job belong to."""
        self._pages: dict[str, tuple[KeptCounters, ...]] = {}
        self._tallies: dict[str, _Engine] = {}
        self._missed: dict[str, float] = {}
        """Since when a job with sums has neither been here nor had an engine, on the snapshots' clock."""

    def resume(self, kept: KeptServed) -> None:
        """Go on from where an earlier agent was, before any tally is made."""
        with self.lock:
            self._earlier = {job: as_served(each.served) for job, each in kept.jobs.items()}
            self._began = {job: each.began for job, each in kept.jobs.items()}
            self._pages = dict(kept.engines)

    def begin_tallies(self, settings: Sequence[PullSetting]) -> list[ServedTally]:
        """Begin a tally for each engine, from where the last one of it ended; none else counts from now on."""
        # an address may have a password in it, which is not kept
        engines = [short_hash(f"{each.job_id} {each.url}") for each in settings]
        with self.lock:
            for engine, (setting, tally) in self._tallies.items():
                tally.lose()
                self._earlier.setdefault(setting.job_id, Served()).add(tally.served)
                self._pages[engine] = tally.kept()
            self._tallies = {
                engine: _Engine(each, ServedTally(self._pages.get(engine, ())))
                for engine, each in dict(zip(engines, settings, strict=True)).items()
            }
            self._pages.clear()
            self._forget()
            return [self._tallies[engine].tally for engine in engines]

    def served(self) -> dict[str, Served]:
        """What the engines of each job served since the job's record began, by the id that its scheduler gives it."""
        with self.lock:
            named = self._served()
        snapshot = self._snapshot() if named else None
        jobs = [view.job for view in snapshot.jobs] if snapshot else []
        ids = {alias: job.job_id for job in jobs for alias in job.aliases}
        served: dict[str, Served] = {}
        for name, each in named.items():
            served.setdefault(ids.get(name, name), Served()).add(each)
        return served

    def kept(self) -> KeptServed:
        """All that the next agent needs."""
        with self.lock:
            engines = {name: each.tally.kept() for name, each in self._tallies.items()}
            jobs = {
                job: KeptJob(began=self._began.get(job), served=served_totals(served))
                for job, served in self._served().items()
            }
        return KeptServed.model_construct(jobs=jobs, engines={**self._pages, **engines})

    def _served(self) -> dict[str, Served]:
        self._begin_anew()
        self._forget_gone()
        jobs: dict[str, Served] = {}
        of_tallies = ((each.setting.job_id, each.tally.served) for each in self._tallies.values())
        for job, served in (*self._earlier.items(), *of_tallies):
            jobs.setdefault(job, Served()).add(served)
        for setting, tally in self._tallies.values():
            if not setting.metric:
                its = jobs[setting.job_id]
                its.engines[setting.role] += 1.0
                if not tally.is_read:  # what runs in the others is not all that runs
                    its.running.clear()
                    its.waiting.clear()
        return jobs

    def _begin_anew(self) -> None:
        """A job whose record is a new one is another job of the same id: its sums begin at 0, as its GPU-seconds do."""
        for job, at in self._here().items():
            before = self._began.get(job)
            if before is not None and at > before:
                self._earlier.pop(job, None)
                for setting, tally in self._tallies.values():
                    if setting.job_id == job:
                        tally.served = Served()
            self._began[job] = at

    def _forget(self) -> None:
        """Forget jobs that are not here and whose engines are not pulled any more."""
        in_use = self._pulled() | self._here().keys()
        if self._snapshot() is not None:
            self._earlier = {job: each for job, each in self._earlier.items() if job in in_use}
        self._began = {job: at for job, at in self._began.items() if job in self._earlier}

    def _forget_gone(self) -> None:
        """Forget those of `_missed` after a while: the scheduler of a new agent has not answered yet."""
        snapshot = self._snapshot()
        if snapshot is None:
            return
        gone = self._earlier.keys() - self._pulled() - self._here().keys()
        self._missed = {job: self._missed.get(job, snapshot.at) for job in gone}
        for job, since in self._missed.items():
            if snapshot.at - since > GRACE_SECONDS:
                del self._earlier[job]
                self._began.pop(job, None)

    def _pulled(self) -> set[str]:
        return {each.setting.job_id for each in self._tallies.values()}

    def _here(self) -> dict[str, float]:
        """When the record of each job on the page began that has sums or engines, by the id that these know."""
        snapshot = self._snapshot()
        wanted = self._pulled() | self._earlier.keys()
        return {
            name: view.began
            for view in (snapshot.jobs if snapshot else ())
            for name in (view.job.job_id, *view.job.aliases)
            if name in wanted
        }
