"""The state file: job totals that survive a restart of the agent, in SQLite."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ofu_exporter.jobs import kept_served
from ofu_exporter.jobs.clock_mark import ClockMark, moved, set_by
from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.jobs.state_rows import connected, find_job, is_past, last, readable
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.ofu.ownership.job_state import GRACE_SECONDS
from ofu_exporter.support.boot import boot_id
from ofu_exporter.support.durations import lasting
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import UNIX_LIMIT

log = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")

KEEP_SECONDS = 30 * 86400.0
"""A job's summary can be shown this long after it ended."""
MOST_ROWS = 20_000
PRUNE_SECONDS = 3600.0
_TABLES = f"""
CREATE TABLE IF NOT EXISTS jobs (
    scheduler TEXT, job_id TEXT, began REAL, updated REAL, ended REAL, report TEXT,
    PRIMARY KEY (scheduler, job_id, began)
);
CREATE INDEX IF NOT EXISTS jobs_by_id ON jobs (job_id);
CREATE INDEX IF NOT EXISTS jobs_by_time ON jobs (updated);
CREATE TABLE IF NOT EXISTS gpus (
    uuid TEXT, instance TEXT, boot_id TEXT, counted_until REAL, PRIMARY KEY (uuid, instance)
);
CREATE TABLE IF NOT EXISTS watched (one INTEGER PRIMARY KEY, until REAL);
CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY, boot_id TEXT, uptime REAL, unix REAL);
{kept_served.TABLE}
"""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Saved:
    """What a state file remembers for the agent that opens it."""

    jobs: tuple[JobTotals, ...]
    """Jobs that had not ended when the file was last written, or that ended recently enough to be shown."""
    counted_until: Mapping[GpuKey, float]
    """Monotonic time up to which each GPU was counted; empty after a reboot of the node."""
    watched_until: float | None = None
    """Unix time of the last snapshot in the file. No agent has seen who held which GPU after that."""
    is_clock_set: bool = False
    """Whether the clock was set since then. The times here are as if it had been set before."""
    served: KeptServed = field(default_factory=KeptServed)


class StateFile:
    """The open state file. Every method raises sqlite3.Error when the file cannot be used."""

    def __init__(self, path: Path) -> None:
        """Raises sqlite3.Error, and OSError when another agent has the file."""
        lock = path.with_name(f"{path.name}.lock")
        with ExitStack() as opened:
            opened.callback(os.close, _locked(lock))
            self._db = opened.enter_context(closing(connected(str(path), check_same_thread=False)))
            self._prepare()
            self._files = {each: each.stat() for each in (path, lock)}
            self._opened = opened.pop_all()

    def is_there(self) -> bool:
        """Whether the paths of the file and its lock still lead to these. Writes to a file that was removed or replaced
        would be lost."""
        try:
            return all(os.path.samestat(each.stat(), was) for each, was in self._files.items())
        except OSError:
            return False

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):  # not damaged: it stays as it is
            raise sqlite3.OperationalError(
                f"it is of another version of this program ({version}, not {_VERSION}) and is left alone"
            )
        check = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if check != "ok":
            raise sqlite3.DatabaseError(check)
        with self._db:
            self._db.executescript(_TABLES)
            if version != _VERSION:  # a file on a full disk can still be read
                self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def load(self, unix: float, now: ClockMark | None = None) -> Saved:
        """The jobs to continue if they still run or come back, and the time up to which each GPU was counted.

        With `now`, times are moved by what the clock was set by since the file was written.
        """
        seconds = self._set_by(now) if now else 0.0
        rows = self._db.execute(
            "SELECT report, ended FROM jobs WHERE ended IS NULL OR ended > ? ORDER BY began",
            (unix - seconds - GRACE_SECONDS,),
        ).fetchall()
        (watched,) = self._db.execute("SELECT until FROM watched").fetchone() or (None,)
        until = float(watched) + seconds if is_past(watched, unix - seconds) else None  # type: ignore[arg-type]
        if until is None and watched is not None:
            log.warning(
                "the last time in the state file is %a, which is impossible: left out", watched
            )
        jobs = readable(rows)
        if now is not None:
            jobs = tuple(moved(job, seconds, unix) for job in jobs)
        return Saved(jobs, self._marks(), until, bool(seconds), kept_served.read(self._db))

    def _set_by(self, now: ClockMark) -> float:
        """By how much the clock was set since the file was written; 0 where that is not known."""
        row = self._db.execute("SELECT boot_id, uptime, unix FROM clock").fetchone()
        if (
            row is None
            or not isinstance(row[0], str)
            or not all(is_past(each, UNIX_LIMIT) for each in row[1:])
        ):
            return 0.0
        seconds = set_by(ClockMark(*row), now)
        if seconds:
            log.warning(
                "the clock was set %s by %s since the state file was written: its times are moved by that, and no job "
                "is credited with it",
                "forward" if seconds > 0 else "back",
                lasting(abs(seconds)),
            )
        return seconds

    def _marks(self) -> dict[GpuKey, float]:
        """The time up to which each GPU was counted in this boot. An impossible time is left out, and the GPU is
        counted from the start."""
        boot, now = boot_id(), time.monotonic()
        if not boot:
            return {}  # without a boot id, it is not known in which boot a mark was made
        rows = self._db.execute(
            "SELECT uuid, instance, counted_until FROM gpus WHERE boot_id = ? LIMIT ?",
            (boot, MOST_ROWS),
        ).fetchall()
        marks = {
            GpuKey(uuid, instance): float(until)
            for uuid, instance, until in rows
            if isinstance(uuid, str) and isinstance(instance, str) and is_past(until, now)
        }
        if len(marks) < len(rows):
            bad = len(rows) - len(marks)
            log.warning(
                "%d times up to which GPUs were counted are impossible and are left out of the state file",
                bad,
            )
        return marks

    def save(
        self,
        jobs: Iterable[JobTotals],
        counted_until: Mapping[GpuKey, float],
        watched_until: float,
        now: ClockMark | None = None,
        served: KeptServed | None = None,
    ) -> None:
        """Write the totals of some jobs, the time up to which each GPU was counted, and what engines served, in one
        transaction.

        What a pod had before its job was known is the job's now, so the pod's own row goes.
        """
        boot, jobs = boot_id(), list(jobs)
        with self._db:
            self._db.executemany(
                "DELETE FROM jobs WHERE rowid = ?", [(row,) for row in self._stand_ins(jobs)]
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (j.scheduler, j.job_id, j.began, j.updated, j.ended, j.model_dump_json())
                    for j in jobs
                ],
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO gpus VALUES (?, ?, ?, ?)",
                [
                    (uuid, instance, boot, at)
                    for (uuid, instance), at in counted_until.items()
                    if boot
                ],
            )
            self._db.execute("INSERT OR REPLACE INTO watched VALUES (0, ?)", (watched_until,))
            if now is not None:
                self._db.execute("INSERT OR REPLACE INTO clock VALUES (0, ?, ?, ?)", now)
            if served is not None:
                kept_served.write(self._db, served)

    def _stand_ins(self, jobs: Iterable[JobTotals]) -> list[int]:
        """The rows of pods that stood for one of these jobs while nobody could say which job theirs was."""
        pods = ((job, alias) for job in jobs for alias in job.aliases)
        return [
            row
            for job, alias in pods
            for row, report in self._db.execute(
                "SELECT rowid, report FROM jobs WHERE scheduler = ? AND job_id = ? AND updated >= ?",
                (job.scheduler, alias, job.began),
            )
            if any(not pod.uid for pod in readable([(report, None)]))
        ]

    def prune(self, unix: float) -> None:
        """Drop jobs that ended long ago, and the oldest above MOST_ROWS. A job that was not seen for a while counts
        as ended."""
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
            self._db.execute("DELETE FROM gpus WHERE boot_id IS NOT ?", (boot_id(),))
            self._db.execute(
                "DELETE FROM gpus WHERE rowid IN "
                "(SELECT rowid FROM gpus ORDER BY counted_until DESC LIMIT -1 OFFSET ?)",
                (MOST_ROWS,),
            )

    def find(self, job_id: str) -> tuple[JobTotals, ...]:
        """Every remembered run of a job, oldest first."""
        return find_job(self._db, job_id)

    def last(self, most: int, before: int = 0) -> tuple[JobTotals, ...]:
        """Records that were written last, the newest first, after `before` others."""
        return last(self._db, most, before)

    def close(self) -> None:
        self._opened.close()


def _locked(path: Path) -> int:
    """An open lock file next to the state file, which is locked until it is closed or the process ends, even if that is
    killed. Raises OSError when another agent has it.

    Two agents that write one file would each undo what the other wrote. The database itself is not locked: `job show`
    reads it while an agent runs.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if not isinstance(error, BlockingIOError):
            raise
        raise OSError(
            f"another agent writes it ({path.name} is locked); what this one measures is not kept"
        ) from error
    return handle


def open_store(path: Path, set_aside: Callable[[Path], None] = lambda _: None) -> StateFile:
    """Open a state file. A damaged one is set aside first; `set_aside` is told its new path.

    Raises sqlite3.Error, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return StateFile(path)
    except sqlite3.OperationalError:
        raise  # no permission, no space, a lock, another version: the file itself may be sound
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        path.rename(aside)
        path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
        log.error("state file %s is damaged (%s): set aside as %s", path, error, aside.name)
        set_aside(aside)
        return StateFile(path)
