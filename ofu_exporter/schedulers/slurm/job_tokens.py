"""Keeps the tokens with which Slurm's jobs may report: one file per job, which only the job's user can read.

The hooks write them as root. The agent never reads them: it knows their SHA-256 from the job's file.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.trusted_files import opened_folder

DIRECTORY_MODE = 0o711
"""A user can open the file of their own job, but cannot list the others."""


def beside(job_directory: Path) -> Path:
    """The default directory of the tokens."""
    return job_directory.parent / "tokens"


def issue(directory: Path, job_id: str, user_id: str | None) -> str:
    """Give a job a new token; its SHA-256 in hexadecimal, or "" when its user is not known.

    Raises OSError and SchedulerError.
    """
    if not user_id or not user_id.isascii() or not user_id.isdecimal():
        return ""
    token = os.urandom(32).hex().encode()
    job_files.make(directory, DIRECTORY_MODE)
    with opened_folder(directory) as folder:
        job_files.put(folder, job_id, token + b"\n", 0o400, int(user_id))
    from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, and most hooks issue no token

    return sha256(token).hexdigest()


def remove(directory: Path, job_id: str) -> None:
    """Remove a job's token. Raises OSError and SchedulerError."""
    with suppress(FileNotFoundError), opened_folder(directory) as folder:
        os.unlink(job_id, dir_fd=folder)


def remove_orphans(directory: Path, jobs: Collection[str], now: float) -> None:
    """Remove the tokens of all but these jobs, and what killed writers left. Raises OSError and SchedulerError.

    New tokens are kept, because a hook writes the token before the job's file.
    """
    job_files.remove_temporaries(directory, now)
    with suppress(FileNotFoundError), opened_folder(directory) as folder:
        for name in os.listdir(folder):
            if job_files.is_job_id(name) and name not in jobs:
                job_files.remove_stale(folder, name, now)
