"""What the next agent needs to go on counting what engines serve: a row of the state file.

The sums of jobs and the pages up to which they were counted are written together, so that an agent that is killed
neither loses nor doubles what was served.
"""

from __future__ import annotations

import logging
import sqlite3

from pydantic import BaseModel, ConfigDict, Field

from ofu_exporter.jobs.served_totals import ServedTotals, Sum
from ofu_exporter.values.instant import UNIX_LIMIT

log = logging.getLogger(__name__)

TABLE = "CREATE TABLE IF NOT EXISTS served (one INTEGER PRIMARY KEY, kept TEXT);"
MAX_BYTES = 8 << 20
"""Of the row; one of 100 engines has 3 MB, and an agent 128 MiB of memory."""


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class KeptCounters(_Kept):
    """The counters of an engine's page when it was last read."""

    started: tuple[str, ...] = ()
    """When its processes started, as the page wrote it."""
    at: float = Field(ge=0.0, le=UNIX_LIMIT)
    """Unix time."""
    counters: tuple[tuple[str, str, str, str, Sum], ...] = ()
    """Measure, kind, model and labels of a series, and its value."""
    models: tuple[str, ...] = ()
    """Names that are told apart, which stay the same ones."""
    phases: tuple[str, ...] = ()


class KeptJob(_Kept):
    """What the engines of one job served."""

    began: float | None = None
    """When the job was first seen, which names its record; None where no scheduler had said that it runs."""
    served: tuple[ServedTotals, ...] = ()


class KeptServed(_Kept):
    """What all pulled engines served."""

    jobs: dict[str, KeptJob] = Field(default_factory=dict)
    engines: dict[str, tuple[KeptCounters, ...]] = Field(default_factory=dict)
    """By engine, the last page of each of its processes, oldest first."""


def write(db: sqlite3.Connection, kept: KeptServed) -> None:
    """Raises sqlite3.Error."""
    db.execute("INSERT OR REPLACE INTO served VALUES (0, ?)", (kept.model_dump_json(),))


def read(db: sqlite3.Connection) -> KeptServed:
    """Empty where an agent left none, or none that can be read. Raises sqlite3.Error."""
    size = db.execute("SELECT length(CAST(kept AS BLOB)) FROM served").fetchone()
    if size is None:
        return KeptServed()
    try:
        if not size[0] or size[0] > MAX_BYTES:
            raise ValueError
        return KeptServed.model_validate_json(db.execute("SELECT kept FROM served").fetchone()[0])
    except ValueError:
        log.warning("what engines served cannot be read in the state file: counted from 0")
        return KeptServed()
