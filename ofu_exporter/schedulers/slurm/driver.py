"""Reads which Slurm job has which GPUs from the files that `ofu-exporter job` writes in its hooks.

Slurm itself is never asked: the agents of a large cluster would keep its controller busy. A file counts until the job's
epilog removes it, whatever its time limit was. `docs/slurm.md` says what happens to the file of a job whose epilog did
not run. The files of the jobs that ended last are read as well, so that an agent that was down learns of them.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from ofu_exporter import schedulers
from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import ended_files, job_files
from ofu_exporter.schedulers.slurm.job_files import SCHEDULER, JobFile, is_job_id
from ofu_exporter.schedulers.slurm.options import Options as Options
from ofu_exporter.schedulers.slurm.trusted_files import (
    Contents,
    Refusal,
    UntrustedFileError,
    look,
    read_all,
)
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reasons import ClaimRejection, SchedulerReason

log = logging.getLogger(__name__)

FIRST_JOB_SECONDS = 1.0
"""Until a hook has left a file here, the directory is looked at a quarter as often, but at least this often."""
SETTLE_SECONDS = 2.0
"""How long after a change every poll reads the directory again.

A second change within one tick of the file system's clock leaves the directory's time unchanged. Ticks are 1 to 10 ms
in memory and on local disks, and 2 s at worst. This time is counted on the monotonic clock, because the directory's
own time does not tell its age after the wall clock was set back.
"""
FULL_SECONDS = 10.0
"""Longest time until everything is read again, even without a change: a file may become too old, or its mode be
corrected."""

ValueT = TypeVar("ValueT")
_Stamp = tuple[object, ...]


class _WatchedDirectory(Generic[ValueT]):
    """One directory, read again only when something in it may have changed."""

    def __init__(
        self,
        directory: Path,
        read: Callable[[Path], Contents[ValueT]],
        clock: Callable[[], float],
        watches_files: bool = False,
    ) -> None:
        self.directory = directory
        self._read = read
        self._clock = clock
        self._watches_files = watches_files
        self._contents: Contents[ValueT] = Contents()
        self._stamp: _Stamp | None = None
        self._settled_at = 0.0
        self._read_at = 0.0

    def contents(self) -> Contents[ValueT]:
        """The contents now; the same object while nothing can have changed. Raises SchedulerError."""
        now = self._clock()
        status = look(self.directory)
        stamp: _Stamp = (status and (status.st_ino, status.st_mtime_ns, status.st_ctime_ns),)
        if self._watches_files:
            stamp += self._files()
        if stamp != self._stamp:
            self._settled_at = now + SETTLE_SECONDS
        if now < self._settled_at or now - self._read_at >= FULL_SECONDS:
            self._contents = self._read(self.directory)
            self._read_at = now
        self._stamp = stamp
        return self._contents

    def _files(self) -> _Stamp:
        """Times and sizes of the files. They change when a file is written in place, but the directory's time does
        not."""
        stamps: list[object] = []
        for name in self._contents.values:
            with suppress(OSError):
                status = os.lstat(f"{self.directory}/{name}")
                stamps.append((name, status.st_mtime_ns, status.st_size))
        return tuple(stamps)


class Scheduler(schedulers.Scheduler):
    def __init__(
        self,
        options: Options,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._wall_clock = wall_clock
        self._boot_id = boot_id()
        self._files = _WatchedDirectory(options.job_dir, job_files.read, clock)
        self._map = (
            _WatchedDirectory(options.dcgm_job_dir, read_map, clock, watches_files=True)
            if options.dcgm_job_dir
            else None
        )
        self._ended = _WatchedDirectory(
            ended_files.folder_of(options.job_dir), ended_files.EndedReader().read, clock
        )
        self._is_in_use = options.dcgm_job_dir is not None
        self._made_from: tuple[object, ...] = ()
        self._claims: tuple[Claim, ...] = ()
        self._refused: set[tuple[Path, str, int, ClaimRejection]] = set()
        self._rejected: Counter[str] = Counter()

    @property
    def poll_seconds(self) -> float:
        every = self._options.slurm_poll
        return every if self._is_in_use else max(every, min(FIRST_JOB_SECONDS, 4 * every))

    @property
    def rejected(self) -> Mapping[str, int]:
        return dict(self._rejected)

    def claims(self) -> Sequence[Claim]:
        files = self._files.contents()
        mapped = self._map.contents() if self._map else None
        ended = self._ended_contents()  # read last, because an epilog may move a file at any moment
        read_now = (files, mapped, ended)
        if [id(each) for each in read_now] != [id(each) for each in self._made_from]:
            self._claims = self._make_claims(files, mapped, ended)
            self._made_from = read_now
        self._is_in_use |= any(each.values or each.refused for each in (files, ended))
        if not self._is_in_use:  # until a hook has left a file here: the directory proves nothing
            raise SchedulerError(SchedulerReason.NO_JOB_YET, str(self._options.job_dir))
        return self._claims

    def _ended_contents(self) -> Contents[JobFile]:
        """The files of ended jobs. If their folder is not trusted, running jobs are not affected."""
        try:
            return self._ended.contents()
        except (OSError, SchedulerError) as error:
            return _refused_folder(str(error))

    def _make_claims(
        self,
        files: Contents[JobFile],
        mapped: Contents[tuple[str, ...]] | None,
        ended: Contents[JobFile],
    ) -> tuple[Claim, ...]:
        now = self._wall_clock()
        refused = [(self._options.job_dir, refusal) for refusal in files.refused]
        refused += [(self._ended.directory, refusal) for refusal in ended.refused]
        claims = {}
        for name, file in files.values.items():
            reason = self._rejection(file, now)
            if reason is None:
                claims[file.claim.job.job_id] = _believed(file, now)
            else:
                refused.append((self._options.job_dir, Refusal(name, 0, reason, "")))
        if self._map and mapped:
            refused += [(self._map.directory, refusal) for refusal in mapped.refused]
            for claim in claims_of_map(mapped.values):
                claims.setdefault(claim.job.job_id, claim)  # a job file has more information
        self._count(refused)
        running = {claim.job for claim in claims.values()}
        claims_now = (*claims.values(), *_past(ended, running, now))
        return self._claims if claims_now == self._claims else claims_now

    def _rejection(self, file: JobFile, now: float) -> ClaimRejection | None:
        """Why a readable file is rejected; None if it is accepted."""
        if self._boot_id and file.boot_id not in ("", self._boot_id):
            return ClaimRejection.OTHER_BOOT
        started = file.claim.job.started
        if started is not None and now - started > self._options.job_max_age:
            return ClaimRejection.EXPIRED
        return None

    def _count(self, refused: Sequence[tuple[Path, Refusal]]) -> None:
        """Count and log every refused file once while it stays unchanged, even if it is read many times."""
        still = set()
        for directory, (name, mtime_ns, reason, detail) in refused:
            key = (directory, name, mtime_ns, reason)
            still.add(key)
            if key not in self._refused:
                self._rejected[reason.value] += 1
                why = f"{reason.value}: {detail}" if detail else reason.value
                log.warning("%s is rejected (%s)", str(directory / name), why)
        self._refused = still


def _past(ended: Contents[JobFile], running: Collection[Job], now: float) -> Iterator[Claim]:
    """The claims of jobs that have ended; a file that was moved while the directories were read is in both."""
    for name, file in ended.values.items():
        parsed = ended_files.parse_name(name)
        if parsed is not None and parsed.ended <= now and file.claim.job not in running:
            yield replace(file.claim, ended=parsed.ended)


@functools.lru_cache(maxsize=8)
def _refused_folder(detail: str) -> Contents[JobFile]:
    """The refused contents of a folder; the same object for the same problem, as for an unchanged folder."""
    refusal = Refusal("", 0, ClaimRejection.UNREADABLE, detail)
    return Contents(refused=[refusal])


def _believed(file: JobFile, now: float) -> Claim:
    """The claim; a start in the future is from a clock other than this node's, and counts as unknown.

    Until Slurm was asked, each device may be a shard: two jobs on one GPU are no contradiction yet.
    """
    claim = file.claim
    if file.is_first:
        claim = replace(claim, devices=tuple(map(job_files.share, claim.devices)))
    started = claim.job.started
    if started is None or started <= now:
        return claim
    return replace(claim, job=replace(claim.job, started=None))


_DEVICE = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")


def read_map(directory: Path) -> Contents[tuple[str, ...]]:
    """The job ids of every device in the job mapping that prologs write for NVIDIA's dcgm-exporter.

    There is one file per GPU, named by the GPU's number, or `N.M` for GPU instance M of GPU N. Every line is
    the id of a job that has it. Nothing when there is no directory. Raises SchedulerError.
    """
    return read_all(directory, _ids, _device_number)


def _device_number(name: str) -> int | None:
    """Sort key by the GPU; None for other names, such as that of a lock, which dcgm-exporter ignores too."""
    match = _DEVICE.fullmatch(name)
    return int(match[1]) if match else None


def _ids(_name: str, text: str) -> tuple[str, ...]:
    """The ids in the file of one device. Raises UntrustedFileError."""
    ids = dict.fromkeys(text.split())
    for job_id in ids:
        if not is_job_id(job_id):
            raise UntrustedFileError(ClaimRejection.BAD_JOB_ID, "a line is not the number of a job")
    return tuple(ids)


def claims_of_map(devices: Mapping[str, tuple[str, ...]]) -> list[Claim]:
    """The claims of the jobs in the files; only a job's id is known."""
    by_job: dict[str, list[str]] = {}
    for device, ids in sorted(devices.items()):
        for job_id in ids:
            by_job.setdefault(job_id, []).append(device)
    return [Claim(Job(SCHEDULER, job_id), tuple(names)) for job_id, names in sorted(by_job.items())]
