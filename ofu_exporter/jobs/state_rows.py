"""Reads the records of jobs in a state file. A row that cannot be read is left out, and costs no other row."""

from __future__ import annotations

import logging
import math
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ofu_exporter.jobs.totals import JobTotals

log = logging.getLogger(__name__)

MOST_LISTED = 50
"""Most jobs of a file that are listed."""
BUSY_SECONDS = 1.0
"""How long to wait for another reader of the file."""


def connected(database: str, **options: Any) -> sqlite3.Connection:
    """A connection that reads a text that is not UTF-8 with other characters, for which it would fail else."""
    db: sqlite3.Connection = sqlite3.connect(database, timeout=BUSY_SECONDS, **options)
    db.text_factory = partial(str, encoding="utf-8", errors="replace")
    return db


def is_past(value: object, now: float) -> bool:
    """Whether a value of a row is a time in the past. NaN, a time in the future and anything but a number are not."""
    return isinstance(value, (int, float)) and 0 <= value <= now


_ALIAS = re.compile(r"[0-9]{1,19}[_+][0-9]{1,10}")
"""A task of an array or a part of a heterogeneous job, which has a number of its own too: `81_4`, `8+1`."""


def find_job(db: sqlite3.Connection, job_id: str) -> tuple[JobTotals, ...]:
    """Every record of a job, by its id or by the name that Slurm's commands show. Raises sqlite3.Error."""
    rows = db.execute("SELECT report, ended FROM jobs WHERE job_id = ? ORDER BY began", (job_id,))
    by_id = readable(rows.fetchall())
    if by_id or not _ALIAS.fullmatch(job_id):
        return by_id
    named = db.execute(
        "SELECT report, ended FROM jobs WHERE instr(report, ?) ORDER BY began", (f'"{job_id}"',)
    )
    return tuple(job for job in readable(named.fetchall()) if job_id in job.aliases)


def readable(rows: Sequence[tuple[str, float | None]]) -> tuple[JobTotals, ...]:
    """The totals in rows; a row that cannot be read is left out."""
    readable = []
    for row, ended in rows:
        try:
            job = JobTotals.model_validate_json(row)
        except ValidationError:
            log.warning("a job in the state file cannot be read and is left out")
            continue
        if ended is not None and not is_past(ended, math.inf):
            log.warning("job %s in the state file has an impossible end: left out", job.job_id)
            continue
        readable.append(job.model_copy(update={"ended": ended}))
    return tuple(readable)


def find_in_file(path: Path, job_id: str) -> tuple[JobTotals, ...]:
    """Look a job up in a state file without writing to it. Raises sqlite3.Error."""
    with _opened(path) as db:
        return find_job(db, job_id)


def last_in_file(path: Path) -> tuple[JobTotals, ...]:
    """The records of a state file that were written last, the newest first. Raises sqlite3.Error."""
    with _opened(path) as db:
        return last(db, MOST_LISTED)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A state file that is only read. Raises sqlite3.Error."""
    if path.exists() and not path.is_file():  # to open a pipe waits for somebody who writes
        raise sqlite3.OperationalError("it is not a file")
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with closing(connected(uri, uri=True)) as db:
        yield db


def last(db: sqlite3.Connection, most: int, before: int = 0) -> tuple[JobTotals, ...]:
    """Records that were written last, the newest first, after `before` others. Raises sqlite3.Error."""
    rows = db.execute(
        "SELECT report, ended FROM jobs ORDER BY updated DESC LIMIT ? OFFSET ?", (most, before)
    )
    return readable(rows.fetchall())
