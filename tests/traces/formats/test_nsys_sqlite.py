"""An export of Nsight Systems to SQLite: kernels, times and counts, and no shapes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import formats, job
from ofu_exporter.traces.formats import NO_SHAPE, KernelLaunches, nsys_sqlite
from tests.helpers.agent import until
from tests.traces import planted
from tests.traces.formats.tracing import ADD, H100, NVJET, rounded
from tests.traces.trace_maker import Maker


def database(path: Path, *kernels: tuple[str, int, int], gpu: bool = True) -> Path:
    """An export with the tables and columns that are read, of the many that it has."""
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        made.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
            "correlationId INTEGER, demangledName INTEGER, shortName INTEGER)"
        )
        if gpu:
            made.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER)")
            made.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?, 132)", (H100,))
        for name in {name for name, _, _ in kernels}:
            made.execute("INSERT INTO StringIds (value) VALUES (?)", (name,))
        made.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT ?, ?, 0, 1, id, id FROM StringIds WHERE value = ?",
            [(start, end, name) for name, start, end in kernels],
        )
    return path


def test_an_export_is_summed_by_kernel(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a #1.sqlite", (NVJET, 0, 1000), (NVJET, 2000, 5000), (ADD, 6000, 6500)
    )
    profile = formats.read(path)
    assert profile.format == "nsys_sqlite"
    assert profile.gpus == {H100}
    assert rounded(profile) == (KernelLaunches(NVJET, 2, 4e-6, why=NO_SHAPE),)
    assert profile.other_seconds == pytest.approx(5e-7)


def test_an_export_need_not_name_its_gpu(tmp_path: Path) -> None:
    path = database(tmp_path / "a.sqlite", (NVJET, 0, 1000), gpu=False)
    assert formats.read(path).gpus == frozenset()


def test_an_export_without_kernels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    with pytest.raises(ConfigError, match=r"a\.sqlite has no kernels: profile with nsys"):
        formats.read(path)


def test_odd_rows_of_an_export_add_no_time(tmp_path: Path) -> None:
    path = database(tmp_path / "a.sqlite", (NVJET, 0, 1000), (NVJET, 3000, 2000))
    with closing(sqlite3.connect(path)) as made, made:
        made.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 0, NULL, 0, 1, id, id FROM StringIds"
        )
        made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 1, 0, 1, 99, 99)")
        made.execute("INSERT INTO StringIds VALUES (99, x'00ff')")
    assert rounded(formats.read(path)) == (KernelLaunches(NVJET, 3, 1e-6, why=NO_SHAPE),)


def test_a_damaged_export_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 200)
    with pytest.raises(ConfigError, match=r"a\.sqlite: "):
        formats.read(path)


ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS start, i + 1 AS end, 0 AS deviceId, 1 AS correlationId, 1 AS demangledName FROM n"
)


def test_a_view_is_no_table_of_an_export(tmp_path: Path) -> None:
    path = database(tmp_path / "a.sqlite", (NVJET, 0, 1000))
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        made.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {ENDLESS}")
    with pytest.raises(ConfigError, match="has no kernels"):
        formats.read(path)


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """An export in which each of a million launches has a name of its own, behind a million others."""
    path = database(tmp_path / "slow.sqlite", (NVJET, 0, 1000))
    million = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000) "
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("DROP TABLE StringIds")
        made.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        made.execute(f"INSERT INTO StringIds {million} SELECT 1, 'gemm' FROM n")
        made.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL {million} SELECT 0, 1, 0, 1, -i, 1 FROM n"
        )
    return path


@pytest.mark.slow
def test_long_names_are_read_once_and_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty thousand launches, calls and ranges of NVTX, of two names of 15 MB."""
    monkeypatch.setattr(nsys_sqlite, "READ_SECONDS", 30.0)
    path = database(tmp_path / "long.sqlite", (NVJET, 0, 1000))
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) "
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN streamId INTEGER")
        made.execute("CREATE TABLE NVTX_EVENTS (globalTid, text, textId, start, end)")
        made.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (globalTid, nameId, start, end, correlationId)"
        )
        for id_ in (7, 8):
            name = NVJET + "_" + 15_000_000 * str(id_)
            made.execute("INSERT INTO StringIds VALUES (?, ?)", (id_, name))
        made.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL {many} SELECT 9*i, 9*i+5, 0, i, 7+i%2, 7, 1 FROM n"
        )
        made.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME {many} SELECT 1, 7+i%2, 9*i, 9*i+1, i FROM n"
        )
        made.execute(f"INSERT INTO NVTX_EVENTS {many} SELECT 1, NULL, 7+i%2, 9*i, 9*i+1 FROM n")
        made.execute("INSERT INTO NVTX_EVENTS SELECT 2, value, NULL, 5, 9 FROM StringIds")
    found = formats.read(path)
    assert sorted(each.number for each in found.launches) == [1, 10_000, 10_000]
    assert max(len(each.kernel) for each in found.launches) == 2000
    (timeline,) = found.timelines
    assert len(timeline.names.texts) <= 4


@pytest.mark.slow
def test_an_export_that_takes_too_long_is_given_up(
    slow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys_sqlite, "READ_SECONDS", 0.5)
    with pytest.raises(ConfigError, match=r"slow\.sqlite takes more than 0\.5 s to read"):
        formats.read(slow)


@pytest.mark.slow
def test_an_interrupt_ends_a_long_reading(slow: Path) -> None:
    # What a shell runs in its background ignores SIGINT, and so would all that it starts.
    python = ["env", "--default-signal=INT", sys.executable, "-m", "ofu_exporter"]
    command = [*python, "profile", str(slow)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as reading:
        files = Path(f"/proc/{reading.pid}/fd")
        until(lambda: any(os.path.realpath(each) == str(slow) for each in files.iterdir()))
        reading.send_signal(signal.SIGINT)
        _, errors = reading.communicate(timeout=60)
    assert (reading.returncode, errors) == (1, "\nAborted!\n")


def exported(path: Path, *makers: Maker) -> Path:
    """What Nsight Systems would have exported of the same processes, with the columns that its documentation has of
    these tables: times in nanoseconds, names by number, calls with their version, a process as its number above 24
    bits, which in a thread's are its own number. Each process sees one GPU."""
    names: dict[str, int] = {}

    def numbered(name: str) -> int:
        return names.setdefault(name, len(names) + 1)

    with closing(sqlite3.connect(path)) as made, made:
        made.executescript(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, globalPid, deviceId, streamId, correlationId,"
            " demangledName);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, globalPid, deviceId, streamId, correlationId,"
            " copyKind, srcKind, dstKind);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);"
            "CREATE TABLE NVTX_EVENTS (start, end, globalTid, text, textId);"
        )
        for number, event in ((n, each) for n, maker in enumerate(makers) for each in maker.events):
            start, args, process = round(event["ts"] * 1e3), event["args"], 1000 + number << 24
            row: tuple[Any, ...]
            place: tuple[Any, ...]
            end, thread = start + round(event["dur"] * 1e3), process + event["tid"]
            ran = (start, end, process, 0)
            if event["cat"] == "kernel":
                place = (args["stream"], args["correlation"], numbered(event["name"]))
                table, row = "CUPTI_ACTIVITY_KIND_KERNEL", (*ran, *place)
            elif event["cat"] == "gpu_memcpy":
                place = (args["stream"], args["correlation"], 1, 1, 2)
                table, row = "CUPTI_ACTIVITY_KIND_MEMCPY", (*ran, *place)
            elif event["cat"] == "cuda_runtime":
                place = (thread, args["correlation"], numbered(event["name"] + "_v7000"))
                table, row = "CUPTI_ACTIVITY_KIND_RUNTIME", (start, end, *place)
            else:
                table, row = "NVTX_EVENTS", (start, end, thread, event["name"], None)
            made.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        made.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", [(n, name) for name, n in names.items()]
        )
    return path


@pytest.mark.parametrize("kind", ["data_loader", "fp32_products", "synchronisation", "host_bound"])
def test_an_export_says_the_same_of_the_time_as_a_trace_of_pytorch(
    kind: str, tmp_path: Path
) -> None:
    maker = planted.job(kind, planted.PLANTS[kind], 5000.0, seed=1).maker
    (there, _), (here, _) = (
        job.read([path])
        for path in (maker.write(tmp_path / "a.json"), exported(tmp_path / "a.sqlite", maker))
    )
    (wanted,), (rank,) = there.ranks, here.ranks
    assert rank.parts == pytest.approx(wanted.parts, abs=1e-4)
    assert rank.seconds == pytest.approx(wanted.seconds, rel=1e-4)
    assert [each.step for each in rank.steps] == [each.step for each in wanted.steps]
    idle, wanted_idle = (
        {why: share for why, share in each.idle.items() if share > 1e-4} for each in (rank, wanted)
    )
    assert idle == pytest.approx(wanted_idle, abs=1e-4)
    assert [each.finding for each in here.findings] == [each.finding for each in there.findings]


def test_processes_of_one_export_are_told_apart(tmp_path: Path) -> None:
    """Each has launches, and a GPU, of the same numbers, and a cause of its own."""
    kinds = ("data_loader", "synchronisation")
    makers = [planted.job(kind, planted.PLANTS[kind], 5000.0, seed=1).maker for kind in kinds]
    apart = [
        job.read([exported(tmp_path / f"{n}.sqlite", maker)])[0].ranks[0]
        for n, maker in enumerate(makers)
    ]
    together, _ = job.read([exported(tmp_path / "rank0.sqlite", *makers)])
    assert together.ranks == tuple(apart)


def test_an_export_of_no_end_of_processes_is_refused(tmp_path: Path) -> None:
    path = exported(tmp_path / "many.sqlite")
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) "
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("INSERT INTO StringIds VALUES (1, 'gemm')")
        made.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL {many} SELECT i, i + 1, i << 24, 0, 7, 1, 1 FROM n"
        )
    with pytest.raises(ConfigError, match=r"many\.sqlite.* more than 1,024 processes with a GPU"):
        formats.read(path)
