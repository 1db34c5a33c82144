"""Keeps the files of the jobs that ended last, so that an agent that was down learns of them.

A job's file is moved to `.ended/JOBID-TIME.json` in the folder of the job files; TIME is the end, in Unix
seconds with up to three decimals.
Its content does not change.
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
from ofu_exporter.schedulers.slurm.trusted_files import (
    Contents,
    Refusal,
    UntrustedFileError,
    opened_folder,
    read_trusted,
)

FOLDER = ".ended"
"""A folder in the directory of the job files, which readers of that directory ignore."""
MOST_KEPT = 256
"""Files above this number are removed, beginning with the jobs that ended first."""

_NAME = r"(0|[1-9][0-9]{0,18})-([0-9]{1,11}(?:\.[0-9]{1,3})?)\.json"


class EndedName(NamedTuple):
    """The content of such a file's name. Names are ordered by the time of the end."""

    ended: float
    """Unix time."""
    job_id: str
    name: str


def parse_name(name: str) -> EndedName | None:
    """What a file's name says; None for any other file."""
    match = re.fullmatch(_NAME, name)
    return EndedName(float(match[2]), match[1], name) if match else None


def folder_of(directory: Path) -> Path:
    """The folder of the files of ended jobs, in the directory of the job files."""
    return directory / FOLDER


def put_aside(directory: Path, job_id: str, now: float) -> bool:
    """Move the file of a job that ends now; returns whether there was one. Raises OSError and SchedulerError.

    A file that cannot be moved, perhaps because the disk is full, is removed: the job is over in any case.
    """
    if not os.path.lexists(directory / f"{job_id}.json"):
        return False
    try:
        job_files.make(folder_of(directory))
        with opened_folder(directory) as source, opened_folder(folder_of(directory)) as target:
            name = f"{job_id}-{job_files.milliseconds(now)}.json"
            os.rename(f"{job_id}.json", name, src_dir_fd=source, dst_dir_fd=target)
    except (OSError, SchedulerError):
        return job_files.remove(directory, job_id)
    return True


def has_ended_since(directory: Path, job_id: str, unix: float) -> bool:
    """Whether a job ended at or after an instant, by its file here. Raises OSError and SchedulerError."""
    return any(each.job_id == job_id and each.ended >= int(unix) for each in names(directory))


def runs(directory: Path, job_id: str) -> frozenset[tuple[str, int]]:
    """The files of a job's runs that ended, each with its inode. Of two ends in one instant only the last is kept.

    Raises OSError and SchedulerError.
    """
    files = set()
    for each in names(directory):
        if each.job_id == job_id:
            with suppress(FileNotFoundError):
                files.add((each.name, (folder_of(directory) / each.name).lstat().st_ino))
    return frozenset(files)


def names(directory: Path) -> list[EndedName]:
    """The files of ended jobs, oldest first; none where there is no directory. Raises OSError and SchedulerError."""
    with suppress(FileNotFoundError), opened_folder(folder_of(directory)) as folder:
        return sorted(each for name in os.listdir(folder) if (each := parse_name(name)))
    return []


def read_one(directory: Path, ended: EndedName) -> JobFile:
    """The content of a file. Raises UntrustedFileError, FileNotFoundError and SchedulerError."""
    with opened_folder(folder_of(directory)) as folder:
        return job_files.parse(f"{ended.job_id}.json", read_trusted(folder, ended.name))


def remove_oldest(directory: Path) -> None:
    """Keep the last files only. Raises OSError and SchedulerError."""
    for each in names(directory)[:-MOST_KEPT]:
        with suppress(FileNotFoundError), opened_folder(folder_of(directory)) as folder:
            os.unlink(each.name, dir_fd=folder)


class EndedReader:
    """Reads these files, each of them once, because they never change; remembers them while they exist."""

    def __init__(self) -> None:
        self._files: dict[str, JobFile | Refusal] = {}

    def read(self, folder: Path) -> Contents[JobFile]:
        """The files of the folder, the last to end last. Raises SchedulerError and OSError."""
        directory = folder.parent
        last = names(directory)[-MOST_KEPT:]
        files = {each.name: self._files.get(each.name) or _read(directory, each) for each in last}
        self._files = {name: file for name, file in files.items() if file is not None}
        contents = self._files.items()
        return Contents(
            {name: file for name, file in contents if isinstance(file, JobFile)},
            [file for _, file in contents if isinstance(file, Refusal)],
        )


def _read(directory: Path, ended: EndedName) -> JobFile | Refusal | None:
    """A file's content; None when it is gone."""
    try:
        return read_one(directory, ended)
    except UntrustedFileError as refused:
        return Refusal(ended.name, 0, refused.reason, refused.detail)
    except FileNotFoundError:
        return None
