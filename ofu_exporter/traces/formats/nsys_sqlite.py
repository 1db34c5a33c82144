"""Reads an SQLite export of Nsight Systems: which kernels ran, how often and how long; it has no shapes."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.traces.formats import NO_SHAPE, Profile, Tally
from ofu_exporter.values.trace import UNLIMITED, TraceLimits

MADE_BY = "nsys export --type sqlite report.nsys-rep"

_KERNELS = """
SELECT name.value, COUNT(*), TOTAL(MAX(kernel.end - kernel.start, 0))
FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel JOIN StringIds AS name ON name.id = kernel.demangledName
WHERE TYPEOF(name.value) = 'text'
GROUP BY name.value
"""
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
"""And no views, of which a row may cost anything."""
_GPUS = "SELECT name FROM TARGET_INFO_GPU WHERE TYPEOF(name) = 'text' AND name != '' LIMIT 1000"
READ_SECONDS = 300.0
"""How long an export may take; one of 5 million launches takes about 4 s."""
_STEPS = 100_000
"""Instructions of SQLite between two looks at the clock: about a millisecond."""
_LONGEST_TEXT_BYTES = 16 << 20


def recognises(head: bytes) -> bool:
    """Whether the file is an SQLite file."""
    return head.startswith(b"SQLite format 3\0")


def read(path: Path, limits: TraceLimits = UNLIMITED) -> Profile:
    """The profile in an export. Raises ConfigError, which names the file."""
    tally = Tally()
    with _opened(path) as database:
        tables = {name for (name,) in database.execute(_TABLES)}
        if not {"CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"} <= tables:
            raise ConfigError(f"{path} has no kernels: profile with nsys profile --trace=cuda")
        for name, number, nanoseconds in database.execute(_KERNELS):
            tally.add(name, nanoseconds / 1e9, number, why=NO_SHAPE)
        gpus: frozenset[str] = frozenset()
        if "TARGET_INFO_GPU" in tables:
            gpus = frozenset(name for (name,) in database.execute(_GPUS))
    return tally.profile("nsys_sqlite", gpus)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, whose queries end after a while, and when the user interrupts them. Raises ConfigError."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    end = time.monotonic() + READ_SECONDS
    with file_errors(path, sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as database:
        database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        if sys.version_info >= (3, 11):
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT_BYTES)
        try:
            yield database
        except sqlite3.OperationalError as error:
            if str(error) != "interrupted":
                raise
            if time.monotonic() > end:
                raise ConfigError(f"{path} takes more than {READ_SECONDS:g} s to read") from error
            raise KeyboardInterrupt from error  # SQLite swallows what a handler raises
