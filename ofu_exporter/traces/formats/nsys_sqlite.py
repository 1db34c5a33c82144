"""Reads an SQLite export of Nsight Systems: which kernels ran, when and how long, and what called them; no shapes."""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.traces.formats import NO_SHAPE, KernelTally, Profile
from ofu_exporter.traces.timeline import LONGEST_NAME, MOST_NAMES, Timeline, interval
from ofu_exporter.values.trace import MOST_RANKS, UNLIMITED, TraceLimits

MADE_BY = "nsys export --type sqlite report.nsys-rep"

_KERNELS = """
SELECT demangledName, COUNT(*), TOTAL(MAX(end - start, 0)) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY demangledName
"""
_NAME = f"SELECT SUBSTR(value, 1, {LONGEST_NAME}) FROM StringIds WHERE id = ? AND TYPEOF(value) = 'text'"
"""Of a row at a time: a join would copy a long name for each launch."""
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
"""And no views, of which a row may cost anything."""
_GPUS = "SELECT name FROM TARGET_INFO_GPU WHERE TYPEOF(name) = 'text' AND name != '' LIMIT 1000"
_MODELS = "SELECT id, name FROM TARGET_INFO_GPU WHERE TYPEOF(name) = 'text' LIMIT 64"
_IDS = "streamId, correlationId"
_NEEDED = {"start", "end", "deviceId", "streamId", "correlationId"}
_RAN = {
    "CUPTI_ACTIVITY_KIND_KERNEL": f"SELECT {{}}, deviceId, demangledName, start, end, {_IDS} FROM "
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "SELECT {}, deviceId, copyKind + 100 * (srcKind = 0 OR dstKind = 0), "
    f"start, end, {_IDS} FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"SELECT {{}}, deviceId, 'Memset (Device)', start, end, {_IDS} "
    "FROM CUPTI_ACTIVITY_KIND_MEMSET",
}
"""What ran on GPUs, by table, behind the process. Memory of kind 0 is not pinned."""
_COPIES = {
    1: "Memcpy HtoD (Pinned -> Device)",
    2: "Memcpy DtoH (Device -> Pinned)",
    8: "Memcpy DtoD (Device -> Device)",
    10: "Memcpy PtoP (Device -> Device)",
    101: "Memcpy HtoD (Pageable -> Device)",
    102: "Memcpy DtoH (Device -> Pageable)",
}
_DID = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        {"globalTid", "nameId", "start", "end", "correlationId"},
        "SELECT {}, globalTid, NULL, nameId, start, end, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
    ),
    "NVTX_EVENTS": (
        {"globalTid", "text", "textId", "start", "end"},
        f"SELECT {{}}, globalTid, SUBSTR(text, 1, {LONGEST_NAME}), textId, start, end, NULL FROM NVTX_EVENTS "
        "WHERE end IS NOT NULL",
    ),
}
"""What the host did: calls, and ranges of NVTX. Columns by table, and the query."""
_PROCESS = "globalPid"
_PROCESS_OF = "{} >> 24"
"""Of the column of a process, or of a thread, whose number is in the lower bits."""
_NAMED = "CUPTI_ACTIVITY_KIND_KERNEL"
"""Of what ran, the only table with ids of names."""
_VERSION = re.compile(r"_v\d+$")
"""After the name of a call: `cudaLaunchKernel_v7000`."""
NameOf = Callable[[object], str | None]
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
    tally = KernelTally()
    with _opened(path) as database:
        tables = {name for (name,) in database.execute(_TABLES)}
        if not {"CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"} <= tables:
            raise ConfigError(f"{path} has no kernels: profile with nsys profile --trace=cuda")
        names = _names(database)
        for id_, number, nanoseconds in database.execute(_KERNELS):
            if (name := names(id_)) is not None:
                tally.add(name, nanoseconds / 1e9, number, why=NO_SHAPE)
        gpus: frozenset[str] = frozenset()
        if "TARGET_INFO_GPU" in tables:
            gpus = frozenset(name for (name,) in database.execute(_GPUS))
        timelines = _timelines(database, names, tables, limits)
    return tally.profile("nsys_sqlite", gpus, [*timelines])


def _names(database: sqlite3.Connection) -> NameOf:
    """Tells names by their ids, cut; None of an id that has none."""

    @lru_cache(maxsize=MOST_NAMES)
    def name_of(id_: object) -> str | None:
        row = database.execute(_NAME, (_whole(id_),)).fetchone()
        return row[0] if row else None

    return name_of


class _Processes(dict[int, Timeline]):
    """By process: each counts its launches from 1, and its GPUs from 0."""

    def __init__(self, limits: TraceLimits) -> None:
        super().__init__()
        self._limits = limits

    def __missing__(self, process: int) -> Timeline:
        if len(self) >= MOST_RANKS:
            raise ConfigError(f"it has more than {MOST_RANKS:,} processes with a GPU")
        self[process] = timeline = Timeline(self._limits, next(iter(self.values()), None))
        return timeline


def _timelines(
    database: sqlite3.Connection, names: NameOf, tables: set[str], limits: TraceLimits
) -> Collection[Timeline]:
    """When it all ran; none for an export that lacks columns of that."""
    processes = _Processes(limits)
    columns = {each: _columns(database, each) for each in (*_RAN, *_DID) if each in tables}
    ran = [each for each in _RAN if each in columns]
    if not all(columns[each] >= _NEEDED for each in ran):
        return ()
    is_told_apart = all(_PROCESS in columns[each] for each in ran)
    process, of_thread = (
        _PROCESS_OF.format(each) if is_told_apart else "0" for each in (_PROCESS, "globalTid")
    )
    for table in ran:
        of_table = names if table == _NAMED else _copied
        _add_what_ran(processes, database.execute(_RAN[table].format(process)), of_table)
    for table, (needed, query) in _DID.items():
        if columns.get(table, set()) >= needed:
            _add_what_the_host_did(processes, database.execute(query.format(of_thread)), names)
    for number, name in database.execute(_MODELS) if "TARGET_INFO_GPU" in tables else ():
        for timeline in processes.values():
            timeline.models[_whole(number)] = name
    return processes.values()


def _add_what_ran(processes: _Processes, rows: sqlite3.Cursor, names: NameOf) -> None:
    for process, gpu, name, start, end, stream, correlation in rows:
        if (times := _times(start, end)) and (named := names(name)) is not None:
            ids = _whole(stream), _whole(correlation)
            processes[_whole(process)].add_event(_whole(gpu), named, times, ids, -1.0)


def _add_what_the_host_did(processes: _Processes, rows: sqlite3.Cursor, names: NameOf) -> None:
    for process, thread, text, id_, start, end, correlation in rows:
        timeline = processes.get(_whole(process))
        name = names(id_) if text is None else text
        if timeline is not None and isinstance(name, str) and (times := _times(start, end)):
            call = None if correlation is None else _whole(correlation)
            timeline.did(_whole(thread), _VERSION.sub("", name), times, call)
            timeline.step(name, times)


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")}


def _times(start: object, end: object) -> tuple[float, float] | None:
    """Nanoseconds as microseconds; None for what are no times."""
    if isinstance(start, int) and isinstance(end, int):
        return interval(start / 1e3, (end - start) / 1e3)
    return None


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _copied(name: object) -> str | None:
    """The name as it stands, or what Kineto calls a copy of that kind."""
    return name if isinstance(name, str) else _COPIES.get(_whole(name), "Memcpy")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, whose queries end after a while, and when the user interrupts them. Raises ConfigError."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    end = time.monotonic() + READ_SECONDS
    with (
        file_errors(path, sqlite3.Error, ConfigError),
        closing(sqlite3.connect(address, uri=True)) as database,
    ):
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
