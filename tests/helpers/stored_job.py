"""A job that tests put into a state file, and the file as others find it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.snapshot import JobView

NOW = float(round(time.time()))
VIEW = JobView(
    job=Job("slurm", "12", user="ada"),
    usage=(GpuUsage("0", ("GPU-0", ""), 100.0, 90.0, 45.0),),
    distribution={100: 90.0},
    began=NOW - 100,
    ended=None,
    updated=NOW,
)


def change(path: Path, statement: str) -> None:
    """Change the file behind its owner's back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
