"""A job as a page shows it and a state file keeps it, and looks at such a file from outside."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from ofu_exporter.jobs.state_file import Saved, open_store
from ofu_exporter.jobs.totals import totals_of
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.snapshot import JobView

NOW = float(round(time.time()))
VIEW = JobView(
    job=Job("slurm", "12", user="ada"),
    usage={GpuKey("GPU-0", ""): GpuUsage("0", GpuKey("GPU-0", ""), 100.0, 90.0, 45.0)},
    distribution={100: 90.0},
    began=NOW - 100,
    ended=None,
    updated=NOW,
)
TOTALS = totals_of(VIEW, "n1", simulated=False)


def change(path: Path, statement: str) -> None:
    """Change a state file behind its owner's back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def saved(path: Path) -> Saved:
    """What the next agent would find."""
    with closing(open_store(path)) as store:
        return store.load(NOW)
