"""Writes the state file on a thread of its own, at intervals and when a job ends."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from ofu_exporter.errors import HungError
from ofu_exporter.jobs.clock_mark import ClockMark
from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.jobs.lookup import with_served
from ofu_exporter.jobs.state_file import PRUNE_SECONDS, ResultT, Saved, StateFile, open_store
from ofu_exporter.jobs.state_rows import BUSY_SECONDS
from ofu_exporter.jobs.totals import JobTotals, totals_of
from ofu_exporter.support.boot import boot_id, uptime
from ofu_exporter.support.patience import within
from ofu_exporter.values.snapshot import JobView, Snapshot

log = logging.getLogger(__name__)

OPEN_SECONDS = 10.0
"""How long an agent waits at its start for what an earlier one left."""
MOST_TOLD, READ_AT_ONCE = 500, 10
"""Most jobs that an agent tells of at once, beside those on its page; one of 72 GPUs has 50 KB."""

_Record = tuple[str, str, float, float | None]
"""Scheduler, job id, when the job was first seen, and when its last run ended."""


_NONE: tuple[JobTotals, ...] = ()


class StateWriter:
    def __init__(
        self, path: Path, interval: float, current: Callable[[], Snapshot | None], node: str
    ) -> None:
        self._path = path
        self._interval = interval
        self._current = current
        self._node = node
        self._kept: Callable[[], KeptServed] = KeptServed
        self._store: StateFile | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._pruned_at = -math.inf
        self._problem: str | None = None
        """Why the last write failed."""
        self._ended: dict[_Record, tuple[object, ...]] = {}
        """Jobs that ended and are in the file, with what may still grow of them."""
        self._left_out: set[_Record] = set()
        """Jobs whose totals cannot be written."""
        self._thread = threading.Thread(target=self._run, name="ofu-state", daemon=True)
        self.writes: dict[str, int] = {"written": 0, "failed": 0}
        self.set_aside = 0

    def open(self, kept: Callable[[], KeptServed] = KeptServed) -> Saved:
        """Read what an earlier agent left; empty where there is no file, it cannot be read or its disk hangs.

        `kept` is what pulled engines served by then, which each write takes.
        """
        self._kept = kept
        nothing = Saved((), {})
        load = partial(self._attempt, lambda store: store.load(time.time(), _now()), nothing)
        try:
            return within(OPEN_SECONDS, f"state file {self._path}", load)
        except HungError:
            self.writes["failed"] += 1
            hangs = "state file %s: its file system does not answer; totals begin anew"
            log.error(hangs, self._path)
            return nothing

    def start(self) -> None:
        self._thread.start()

    def write_every(self, interval: float) -> None:
        """Write at this interval in seconds from now on."""
        self._interval = interval
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def stop(self, timeout: float) -> None:
        """Write for the last time."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)

    def find(self, job_id: str) -> tuple[JobTotals, ...]:
        """Find a job that may have left the page; empty if the file cannot be read.

        This never waits for a writer whose disk hangs, because the caller runs on a thread of the server.
        """
        return self._attempt(lambda store: store.find(job_id), (), patience=BUSY_SECONDS)

    def last(self) -> Iterator[JobTotals]:
        """The jobs that were written last, as `find` does; no more of them are in memory at once than are read at once.

        A job that is written meanwhile may come twice.
        """
        for before in range(0, MOST_TOLD, READ_AT_ONCE):
            some = partial(_some, before)
            yield from self._attempt(some, _NONE, patience=BUSY_SECONDS)

    def _run(self) -> None:
        last = False
        while not last:
            self._wake.wait(self._interval)
            self._wake.clear()
            last = self._stopping
            snapshot = self._current()
            if snapshot is not None:
                self._write(snapshot)
        with self._lock:
            self._close()

    def _write(self, snapshot: Snapshot) -> None:
        if self._attempt(lambda store: self._save(store, snapshot), False):
            self.writes["written"] += 1
            self._problem = None  # a full disk can still be read
            ended = (view for view in snapshot.jobs if view.ended is not None)
            self._ended = {_record_of(view): _growing(view) for view in ended}

    def _save(self, store: StateFile, snapshot: Snapshot) -> bool:
        news = [
            view for view in snapshot.jobs if self._ended.get(_record_of(view)) != _growing(view)
        ]
        served = self._kept()
        totals = self._totals(news, snapshot.source.simulated)
        of_jobs = {name: of_job.served for name, of_job in served.jobs.items()}
        jobs = [with_served(each, of_jobs) for each in totals]
        marks = {
            view.gpu.key: view.sampled_at for view in snapshot.gpus if view.sampled_at is not None
        }
        watched_until = time.time() - (time.monotonic() - snapshot.at)
        store.save(jobs, marks, watched_until, _now(), served)
        if time.monotonic() - self._pruned_at > PRUNE_SECONDS:
            store.prune(time.time())
            self._pruned_at = time.monotonic()
        return True

    def _totals(self, views: Sequence[JobView], simulated: bool) -> list[JobTotals]:
        """The jobs as documents. A job with an impossible value is left out; other jobs are not affected."""
        totals: list[JobTotals] = []
        left_out: set[_Record] = set()
        for view in views:
            try:
                totals.append(totals_of(view, self._node, simulated))
            except ValueError as error:
                left_out.add(_record_of(view))
                self.writes["failed"] += 1
                if _record_of(view) not in self._left_out:
                    log.error("job %s is left out of the state file: %s", view.job.job_id, error)
        self._left_out = left_out
        return totals

    def _attempt(
        self, work: Callable[[StateFile], ResultT], otherwise: ResultT, patience: float = -1
    ) -> ResultT:
        """Work on the store. A failure is counted and logged once, and does not affect the totals in memory.

        `patience` is how many seconds to wait for other threads that work on it; -1 = without a limit.
        """
        if not self._lock.acquire(timeout=patience):
            return otherwise
        try:
            return work(self._opened())
        except Exception as error:  # noqa: BLE001 - logged there; whatever goes wrong, the next write is tried
            self._fail(error)
            return otherwise
        finally:
            self._lock.release()

    def _opened(self) -> StateFile:
        """The store. A newly opened store gets all jobs on the page, including those that have ended."""
        if self._store is not None and not self._store.is_there():
            log.error("state file %s was removed or replaced: opened again", self._path)
            self._close()
        if self._store is None:
            self._ended.clear()
            self._store = open_store(self._path, self._count_aside)
        return self._store

    def _count_aside(self, _: Path) -> None:
        self.set_aside += 1

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _fail(self, error: Exception) -> None:
        self.writes["failed"] += 1
        if str(error) != self._problem:
            is_expected = isinstance(error, (sqlite3.Error, OSError))
            text = "state file %s cannot be used: %s"
            log.error(text, self._path, error, exc_info=not is_expected)
        self._problem = str(error)
        self._close()


def _some(before: int, store: StateFile) -> tuple[JobTotals, ...]:
    return store.last(READ_AT_ONCE, before)


def _now() -> ClockMark:
    return ClockMark(boot_id(), uptime(), time.time())


def _record_of(view: JobView) -> _Record:
    return (*view.job.key, view.began, view.ended)


def _growing(view: JobView) -> tuple[object, ...]:
    """What may still grow of a job that has ended: its last window or report may come late."""
    return view.usage, view.reports and (view.reports.total, view.reports.outcomes)
