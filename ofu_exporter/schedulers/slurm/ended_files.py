"""Keeps the files of the last jobs that ended: an agent that was away learns by them what it has not seen.

A job's file is moved to `.ended/JOBID-TIME.json` beside the others; TIME is the end, in Unix seconds. Its
content stays as it was.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.schedulers.slurm.trusted_files import opened, read

FOLDER = ".ended"
"""Within the directory of the job files, where readers of those pass it over."""
MOST_KEPT = 256
"""Files above this number are removed, those of the first jobs that ended first."""

_NAME = r"(0|[1-9][0-9]{0,18})-([0-9]{1,11})\.json"


class EndedName(NamedTuple):
    """What the name of such a file says. They are ordered by the time of the end."""

    ended: float
    """Unix time."""
    job_id: str
    name: str


def parse_name(name: str) -> EndedName | None:
    """What a file's name says; None for any other file."""
    match = re.fullmatch(_NAME, name)
    return EndedName(float(match[2]), match[1], name) if match else None


def folder_of(directory: Path) -> Path:
    """Where the files of ended jobs are, by the directory of the others."""
    return directory / FOLDER


def put_aside(directory: Path, job_id: str, now: float) -> bool:
    """Move the file of a job that ends now; whether there was one. Raises OSError and SchedulerError.

    Where it cannot be moved, for lack of room perhaps, it is removed: the job is over in any case.
    """
    if not os.path.lexists(directory / f"{job_id}.json"):
        return False
    try:
        job_files.make(folder_of(directory))
        with opened(directory) as source, opened(folder_of(directory)) as target:
            name = f"{job_id}-{int(now)}.json"
            os.rename(f"{job_id}.json", name, src_dir_fd=source, dst_dir_fd=target)
    except (OSError, SchedulerError):
        return job_files.remove(directory, job_id)
    return True


def has_ended_since(directory: Path, job_id: str, unix: float) -> bool:
    """Whether a job ended at or after an instant, by its file here. Raises OSError and SchedulerError."""
    return any(each.job_id == job_id and each.ended >= int(unix) for each in names(directory))


def runs(directory: Path, job_id: str) -> frozenset[tuple[str, int]]:
    """The files of a job's runs that ended, each with its inode: of two ends in one second the last one is left.

    Raises OSError and SchedulerError.
    """
    found = set()
    for each in names(directory):
        if each.job_id == job_id:
            with suppress(FileNotFoundError):
                found.add((each.name, (folder_of(directory) / each.name).lstat().st_ino))
    return frozenset(found)


def names(directory: Path) -> list[EndedName]:
    """The files of ended jobs, oldest first; none where there is no directory. Raises OSError and SchedulerError."""
    with suppress(FileNotFoundError), opened(folder_of(directory)) as folder:
        return sorted(each for name in os.listdir(folder) if (each := parse_name(name)))
    return []


def read_one(directory: Path, ended: EndedName) -> JobFile:
    """The content of a file. Raises Refused, FileNotFoundError and SchedulerError."""
    with opened(folder_of(directory)) as folder:
        return job_files.parse(f"{ended.job_id}.json", read(folder, ended.name))


def remove_oldest(directory: Path) -> None:
    """Keep the last files only. Raises OSError and SchedulerError."""
    for each in names(directory)[:-MOST_KEPT]:
        with suppress(FileNotFoundError), opened(folder_of(directory)) as folder:
            os.unlink(each.name, dir_fd=folder)
