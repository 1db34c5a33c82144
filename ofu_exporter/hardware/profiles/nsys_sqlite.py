"""Reads an SQLite export of Nsight Systems: which kernels ran, how often and how long; it has no shapes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.hardware.profiles import NO_SHAPE, Profile, Tally

MADE_BY = "nsys export --type sqlite report.nsys-rep"

_KERNELS = """
SELECT name.value, COUNT(*), TOTAL(MAX(kernel.end - kernel.start, 0))
FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel JOIN StringIds AS name ON name.id = kernel.demangledName
WHERE TYPEOF(name.value) = 'text'
GROUP BY name.value
"""
_TABLES = "SELECT name FROM sqlite_master"


def recognises(head: bytes) -> bool:
    """Whether the file is an SQLite file."""
    return head.startswith(b"SQLite format 3\0")


def read(path: Path) -> Profile:
    """The profile in an export. Raises ConfigError, which names the file."""
    tally = Tally()
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with file_errors(path, sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as database:
        tables = {name for (name,) in database.execute(_TABLES)}
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
            raise ConfigError(f"{path} has no kernels: profile with nsys profile --trace=cuda")
        for name, number, nanoseconds in database.execute(_KERNELS):
            tally.add(name, nanoseconds / 1e9, number, why=NO_SHAPE)
        gpus: frozenset[str] = frozenset()
        if "TARGET_INFO_GPU" in tables:
            gpus = frozenset(
                name for (name,) in database.execute("SELECT name FROM TARGET_INFO_GPU") if name
            )
    return tally.profile("nsys_sqlite", gpus)
