"""Reads how often NVRx has started the programs of Slurm jobs again: from the files of its `--ft-cycle-info-dir`.

NVRx `fault_tolerance/cycle_info_writer.py` writes `cycle_info.JOB.ATTEMPT.CYCLE` when a cycle starts, and replaces it
when the cycle ends, which one that was killed never does; the next one ends it. JOB is SLURM_ARRAY_JOB_ID or
SLURM_JOB_ID. A requeue is another attempt, whose first cycle is Slurm's restart. A file counts that the job's user or
root owns, and no link, so that nobody else tells restarts who may write into the folder; any user's, where this node
knows no such user.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import wait
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path

from ofu_exporter.errors import ConfigError, HungError
from ofu_exporter.support.patience import begun
from ofu_exporter.support.small_files import READ_SECONDS, read_small
from ofu_exporter.support.users import uid_of
from ofu_exporter.values.job import Job, JobKey
from ofu_exporter.values.snapshot import Snapshot

EVERY_SECONDS = 5.0
MOST_NAMES = 20_000
"""Most names of a folder that are looked at."""
MOST_CYCLES = 500
"""Most cycles of a job that are counted."""
MOST_BYTES = 64 << 10
SCHEDULER = "slurm"

_UNUSABLE = ConfigError, ValueError, TypeError, KeyError, AttributeError, RecursionError
_NAME = re.compile(r"cycle_info\.(\d{1,12})\.(\d{1,9})\.(\d{1,9})")
_PLAIN = re.compile(r"[\w@][\w.@-]*")
"""Users whose names may stand in a path."""

log = logging.getLogger(__name__)


class _ForeignError(ConfigError):
    """The file is another user's."""


class CycleFiles:
    """Looks for the files of the jobs on this node, on a thread of its own."""

    def __init__(self, folder: str, snapshot: Callable[[], Snapshot | None]) -> None:
        """In `folder` %j stands for the job's id as NVRx has it, and %u for its user."""
        self._folder = folder
        self._snapshot = snapshot
        self._stop = threading.Event()
        self._begun: dict[JobKey, dict[str, float]] = {}
        """Unix time at which each cycle that is known began, by the name of its file."""
        self._unwritten: dict[JobKey, dict[str, tuple[int, int]]] = {}
        """Files that say no such time, as they were when they were read: they are read again once they have changed."""
        self._counts: Mapping[JobKey, int] = {}
        self._said: set[str] = set()

    def start(self) -> None:
        threading.Thread(target=self._run, name="ofu-cycles", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def restarts(self, job: Job) -> int | None:
        """How often NVRx has started the job again; None before its files were read whole, or if it has none."""
        return self._counts.get(job.key)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            try:
                self.look()
            except Exception:  # an error never ends the thread
                log.exception("unexpected error while NVRx's files were read")

    def look(self) -> None:
        """Read the files of every job that runs here."""
        snapshot = self._snapshot()
        views = [view for view in snapshot.jobs if view.ended is None] if snapshot else []
        since = {view.job: view.began for view in views if view.job.scheduler == SCHEDULER}
        self._begun = {job.key: self._begun.get(job.key, {}) for job in since}
        self._unwritten = {job.key: self._unwritten.get(job.key, {}) for job in since}
        counts = {job.key: count for job in since if (count := self.restarts(job)) is not None}
        for job in self._read_all(since):
            counts[job.key] = _restarts({**self._begun[job.key]}, since[job])
        self._counts = counts

    def _read_all(self, jobs: Collection[Job]) -> Iterator[Job]:
        """Read the files of all jobs side by side, so that no job waits for another's; which have a folder."""
        reads = {}
        for job in jobs:
            with suppress(HungError):  # it hangs since an earlier look
                reads[job] = begun(f"NVRx's files of {job.key}", partial(self._read, job))
        done, _ = wait(reads.values(), READ_SECONDS)
        for job in jobs:
            try:
                if reads.get(job) not in done:
                    raise HungError("its file system", READ_SECONDS)
                if reads[job].result():
                    yield job
            except (HungError, OSError) as error:
                self._say(f"NVRx's files of job {job.job_id} cannot be read: {error}")

    def _read(self, job: Job) -> bool:
        """Read what is new of a job; whether it has a folder: it may use no NVRx."""
        folder, cycles = self._folder_of(job), self._begun[job.key]
        if folder is None:
            self._say(f"NVRx's folder of job {job.job_id} cannot have its user {job.user!r} in it")
        if folder is None or not folder.is_dir():
            return False
        new = sorted(self._changed(job, folder).items())
        owner = uid_of(job.user) if new else None
        for name, state in new[: max(0, MOST_CYCLES - len(cycles))]:
            check = partial(_check_owner, folder / name, owner)
            try:
                content = json.loads(read_small(folder / name, "NVRx's file", MOST_BYTES, check))
                begun = datetime.fromisoformat(content["cycle_start_time"].replace("Z", "+00:00"))
                cycles[name] = begun.timestamp()
            except _ForeignError:
                self._unwritten[job.key][name] = state
                self._say(f"Some of NVRx's files of job {job.job_id} are another user's")
            except _UNUSABLE as error:
                if isinstance(error.__cause__, HungError):
                    raise error.__cause__ from None
                self._unwritten[job.key][name] = state
                log.debug("%s is not written yet, or is none of NVRx", folder / name)
        return True

    def _changed(self, job: Job, folder: Path) -> dict[str, tuple[int, int]]:
        """The files of a job that were not read as they are now."""
        cycles, unwritten = self._begun[job.key], self._unwritten[job.key]
        with os.scandir(folder) as entries:
            changed = {
                entry.name: _state(entry)
                for entry in islice(entries, MOST_NAMES)
                if entry.name not in cycles and _is_of(job, entry.name)
            }
        return {name: state for name, state in changed.items() if unwritten.get(name) != state}

    def _folder_of(self, job: Job) -> Path | None:
        if "%u" in self._folder and not _PLAIN.fullmatch(job.user):
            return None
        return Path(self._folder.replace("%j", _id_of(job)).replace("%u", job.user))

    def _say(self, text: str) -> None:
        """Log a warning once for each job, which is what the texts tell apart."""
        if text not in self._said and len(self._said) < MOST_CYCLES:
            self._said.add(text)
            log.warning("%s: its restarts may be missing", text)


def _id_of(job: Job) -> str:
    return job.array_job_id or job.job_id


def _check_owner(path: Path, owner: int | None, status: os.stat_result, named: str) -> None:
    # Who may write into the folder can lay a link there to a file of the job's own.
    itself = path.lstat()
    if owner is not None and (stat.S_ISLNK(itself.st_mode) or status.st_uid not in (0, owner)):
        raise _ForeignError(f"{named} is owned by user {itself.st_uid}")
    if not os.path.samestat(itself, status):
        raise ConfigError(f"{named} was replaced while it was read")


def _state(entry: os.DirEntry[str]) -> tuple[int, int]:
    """When it was changed, and its size: not every file system tells two changes of a second apart."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # it was there a moment ago
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _is_of(job: Job, name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[1] == _id_of(job)


def _restarts(begun: Mapping[str, float], since: float) -> int:
    """The cycles that are not the first of their attempt, and began since the job was first seen here."""
    attempts: dict[str, list[float]] = {}
    for name, at in begun.items():
        attempts.setdefault(name.rpartition(".")[0], []).append(at)
    return sum(at >= since for times in attempts.values() for at in sorted(times)[1:])
