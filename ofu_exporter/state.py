"""The state file: job totals that survive a restart of the agent, in SQLite."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ofu_exporter.job_report import JobReport, report
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.snapshot import JobView, Snapshot

log = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")

KEEP_SECONDS = 30 * 86400.0
"""A job's summary can be shown this long after it ended."""
MOST_ROWS = 20_000
PRUNE_SECONDS = 3600.0
BUSY_SECONDS = 1.0
"""How long to wait for another reader of the file."""
_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    scheduler TEXT, job_id TEXT, began REAL, updated REAL, ended REAL, report TEXT,
    PRIMARY KEY (scheduler, job_id, began)
);
CREATE INDEX IF NOT EXISTS jobs_by_id ON jobs (job_id);
CREATE INDEX IF NOT EXISTS jobs_by_time ON jobs (updated);
CREATE TABLE IF NOT EXISTS gpus (
    uuid TEXT, instance TEXT, boot_id TEXT, counted_until REAL, PRIMARY KEY (uuid, instance)
);
"""
_VERSION = 1
_Run = tuple[str, str, float]
"""Scheduler, job id, and when it was first seen."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a state file remembers for the agent that opens it."""

    running: tuple[JobReport, ...]
    """Jobs that had not ended when it was last written."""
    counted_until: Mapping[GpuKey, float]
    """Monotonic time up to which each GPU was counted; empty after a reboot."""


class Store:
    """The file. Every method raises sqlite3.Error when the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            self._prepare()
        except sqlite3.Error:
            self._db.close()
            raise
        self._file = _identity(path)

    def is_there(self) -> bool:
        """Whether the path still leads to it: a file that was removed or replaced takes writes that nobody reads."""
        return self._file is not None and _identity(self._path) == self._file

    def _prepare(self) -> None:
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"made by another version ({found})")
        check = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if check != "ok":
            raise sqlite3.DatabaseError(check)
        with self._db:
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def load(self) -> Saved:
        """The jobs to go on with, if they still run."""
        rows = self._db.execute("SELECT report, ended FROM jobs WHERE ended IS NULL").fetchall()
        marks = self._db.execute(
            "SELECT uuid, instance, counted_until FROM gpus WHERE boot_id = ?", (boot_id(),)
        ).fetchall()
        return Saved(_reports(rows), {(uuid, instance): until for uuid, instance, until in marks})

    def save(self, jobs: Iterable[JobReport], counted_until: Mapping[GpuKey, float]) -> None:
        """Write the totals of some jobs, and up to where the GPUs are counted, all or nothing."""
        boot = boot_id()
        with self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (j.scheduler, j.job_id, j.began, j.updated, j.ended, j.model_dump_json())
                    for j in jobs
                ],
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO gpus VALUES (?, ?, ?, ?)",
                [(uuid, instance, boot, at) for (uuid, instance), at in counted_until.items()],
            )

    def prune(self, unix: float) -> None:
        """Drop what ended long ago, and the oldest of too much; a job that nobody sees any more has ended."""
        with self._db:
            self._db.execute(
                "UPDATE jobs SET ended = updated WHERE ended IS NULL AND updated < ?",
                (unix - PRUNE_SECONDS,),
            )
            self._db.execute(
                "DELETE FROM jobs WHERE ended IS NOT NULL AND updated < ?", (unix - KEEP_SECONDS,)
            )
            self._db.execute(
                "DELETE FROM jobs WHERE rowid IN "
                "(SELECT rowid FROM jobs ORDER BY updated DESC LIMIT -1 OFFSET ?)",
                (MOST_ROWS,),
            )

    def find(self, job_id: str) -> tuple[JobReport, ...]:
        """Every run of a job that is remembered, oldest first."""
        return _find(self._db, job_id)

    def close(self) -> None:
        self._db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """The device and inode behind a path; None where there is nothing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _find(db: sqlite3.Connection, job_id: str) -> tuple[JobReport, ...]:
    rows = db.execute("SELECT report, ended FROM jobs WHERE job_id = ? ORDER BY began", (job_id,))
    return _reports(rows.fetchall())


def _reports(rows: Sequence[tuple[str, float | None]]) -> tuple[JobReport, ...]:
    """The rows that can be read; one that cannot costs itself."""
    reports = []
    for row, ended in rows:
        try:
            job = JobReport.model_validate_json(row)
            reports.append(job.model_copy(update={"ended": ended}))
        except ValidationError:
            log.warning("a job in the state file cannot be read and is left out")
    return tuple(reports)


def find_in_file(path: Path, job_id: str) -> tuple[JobReport, ...]:
    """Look a job up in a state file without writing to it. Raises sqlite3.Error."""
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    try:
        return _find(db, job_id)
    finally:
        db.close()


def open_store(path: Path) -> tuple[Store, Path | None]:
    """Open a state file; one that is damaged is set aside first, and named. Raises sqlite3.Error, OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return Store(path), None
    except sqlite3.OperationalError:
        raise  # no permission, no space, locked: the file itself may be sound
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        path.rename(aside)
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
        log.error("state file %s is damaged (%s): set aside as %s", path, error, aside.name)
        return Store(path), aside


class Keeper:
    """Writes what is to be remembered, on a thread of its own, now and then and when a job ends."""

    def __init__(
        self, path: Path, interval: float, current: Callable[[], Snapshot | None], node: str
    ) -> None:
        self._path = path
        self._interval = interval
        self._current = current
        self._node = node
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._pruned_at = -math.inf
        self._problem = ""
        self._ended: set[_Run] = set()
        """Jobs whose last totals are in the file."""
        self._thread = threading.Thread(target=self._run, name="ofu-state", daemon=True)
        self.writes: dict[str, int] = {"written": 0, "failed": 0}
        self.set_aside = 0

    def open(self) -> Saved:
        """Read what an earlier agent left; nothing when there is nothing or it cannot be read."""
        return self._attempt(Store.load, Saved((), {}))

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Write soon: a job ended."""
        self._wake.set()

    def stop(self, timeout: float) -> None:
        """Write for the last time."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)

    def find(self, job_id: str) -> tuple[JobReport, ...]:
        """Look a job up that may have left the page; nothing when the file cannot be read.

        A disk that hangs under the writer is not waited for: who asks holds a thread of the server.
        """
        return self._attempt(lambda store: store.find(job_id), (), patience=BUSY_SECONDS)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._interval)
            self._wake.clear()
            snapshot = self._current()
            if snapshot is not None:
                self._write(snapshot)
        with self._lock:
            self._close()

    def _write(self, snapshot: Snapshot) -> None:
        if self._attempt(lambda store: self._save(store, snapshot), False):
            self.writes["written"] += 1
            self._ended = {_run_of(view) for view in snapshot.jobs if view.ended is not None}

    def _save(self, store: Store, snapshot: Snapshot) -> bool:
        news = [view for view in snapshot.jobs if _run_of(view) not in self._ended]
        reports = [report(view, self._node, snapshot.source.simulated) for view in news]
        marks = {
            view.gpu.key: view.sampled_at for view in snapshot.gpus if view.sampled_at is not None
        }
        store.save(reports, marks)
        if time.monotonic() - self._pruned_at > PRUNE_SECONDS:
            store.prune(time.time())
            self._pruned_at = time.monotonic()
        return True

    def _attempt(
        self, work: Callable[[Store], ResultT], otherwise: ResultT, patience: float = -1
    ) -> ResultT:
        """Work on the store. A failure is counted and logged once; what is in memory goes on.

        `patience`: how many seconds to wait for others who work on it; -1 = as long as it takes.
        """
        if not self._lock.acquire(timeout=patience):
            return otherwise
        try:
            result = work(self._opened())
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
            return otherwise
        else:
            self._problem = ""
            return result
        finally:
            self._lock.release()

    def _opened(self) -> Store:
        """The store; one that is opened anew is told of all jobs on the page, of those that ended too."""
        if self._store is not None and not self._store.is_there():
            log.error("state file %s was removed or replaced: opened anew", self._path)
            self._close()
        if self._store is None:
            self._ended.clear()
            self._store, aside = open_store(self._path)
            self.set_aside += aside is not None
        return self._store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _fail(self, error: Exception) -> None:
        self.writes["failed"] += 1
        if str(error) != self._problem:
            log.error("state file %s cannot be used: %s", self._path, error)
        self._problem = str(error)
        self._close()


def _run_of(view: JobView) -> _Run:
    return (*view.job.key, view.began)
