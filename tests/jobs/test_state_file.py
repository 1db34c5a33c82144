"""The state file: totals that survive, and every way in which the file can fail."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.jobs.state_file import (
    KEEP_SECONDS,
    MOST_ROWS,
    PRUNE_SECONDS,
    StateFile,
    find_in_file,
    open_store,
)
from ofu_exporter.jobs.state_writer import StateWriter
from ofu_exporter.jobs.totals import totals_of
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot
from tests.helpers.agent import until
from tests.helpers.values import gpu, health

NOW = float(round(time.time()))
VIEW = JobView(
    job=Job("slurm", "12", user="ada"),
    usage=(GpuUsage("0", ("GPU-0", ""), 100.0, 90.0, 45.0),),
    distribution={100: 90.0},
    began=NOW - 100,
    ended=None,
    updated=NOW,
)
TOTALS = totals_of(VIEW, "n1", simulated=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "state.sqlite"


_OPENED: list[StateFile] = []


def opened(path: Path) -> tuple[StateFile, Path | None]:
    store, aside = open_store(path)
    _OPENED.append(store)
    return store, aside


def stored(path: Path) -> StateFile:
    return opened(path)[0]


@pytest.fixture(autouse=True)
def _closed_at_the_end() -> Iterator[None]:
    yield
    while _OPENED:
        _OPENED.pop().close()


def change(path: Path, statement: str) -> None:
    """Change the file behind its owner's back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def test_a_running_job_is_what_the_next_agent_goes_on_with(path: Path) -> None:
    first = stored(path)
    first.save([TOTALS], {("GPU-0", ""): 77.0})
    first.close()
    saved = stored(path).load()
    assert saved.running == (TOTALS,)
    assert saved.counted_until == {("GPU-0", ""): 77.0}


def test_a_job_that_ended_is_found_and_not_gone_on_with(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS.model_copy(update={"ended": NOW})], {})
    assert store.load().running == ()
    assert [run.ended for run in store.find("12")] == [NOW]
    assert store.find("13") == ()


def test_an_agent_that_dies_at_its_start_costs_the_next_one_nothing(path: Path) -> None:
    first = stored(path)
    first.save([TOTALS], {})
    for _ in range(3):
        assert stored(path).load().running == (TOTALS,)


def test_a_job_that_does_not_come_back_has_ended(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS], {})
    store.prune(TOTALS.updated + PRUNE_SECONDS - 1)
    assert store.load().running == (TOTALS,)
    store.prune(TOTALS.updated + PRUNE_SECONDS + 1)
    assert store.load().running == ()
    assert [run.ended for run in store.find("12")] == [TOTALS.updated]


def test_saving_again_replaces_and_adds_nothing(path: Path) -> None:
    store = stored(path)
    for updated in (NOW, NOW + 15, NOW + 30):
        store.save([TOTALS.model_copy(update={"updated": updated})], {})
    assert [run.updated for run in store.find("12")] == [NOW + 30]


def test_monotonic_time_of_another_boot_is_not_used(path: Path) -> None:
    stored(path).save([], {("GPU-0", ""): 77.0})
    change(path, "UPDATE gpus SET boot_id = 'another'")
    assert stored(path).load().counted_until == {}


def test_what_ended_long_ago_is_dropped(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS.model_copy(update={"ended": NOW})], {})
    store.prune(NOW + KEEP_SECONDS - 1)
    assert store.find("12")
    store.prune(NOW + KEEP_SECONDS + 1)
    assert not store.find("12")


def test_the_file_holds_a_bounded_number_of_jobs(path: Path) -> None:
    store = stored(path)
    many = [
        TOTALS.model_copy(update={"job_id": str(number), "updated": float(number), "ended": 1.0})
        for number in range(MOST_ROWS + 10)
    ]
    store.save(many, {})
    store.prune(0.0)
    assert not store.find("9")
    assert store.find("10")


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b"no database at all" * 100), id="another file"),
        pytest.param(lambda path: os.truncate(path, 5000), id="cut short"),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(9000)), id="garbage"
        ),
    ],
)
def test_a_damaged_file_is_set_aside_and_kept(path: Path, damage: object) -> None:
    store = stored(path)
    store.save([TOTALS.model_copy(update={"job_id": str(n)}) for n in range(100)], {})
    store.close()
    assert callable(damage)
    damage(path)
    again, aside = opened(path)
    assert aside is not None
    assert aside.exists()
    assert again.load().running == ()
    again.save([TOTALS], {})
    assert again.find("12") == (TOTALS,)


def test_a_file_of_a_later_version_is_set_aside(path: Path) -> None:
    stored(path).close()
    change(path, "PRAGMA user_version = 99")
    assert opened(path)[1] is not None


def test_a_row_that_cannot_be_read_costs_itself(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS, TOTALS.model_copy(update={"job_id": "13"})], {})
    change(path, "UPDATE jobs SET report = '{}' WHERE job_id = '12'")
    assert [job.job_id for job in store.load().running] == ["13"]


def test_a_job_can_be_looked_up_beside_a_running_agent(path: Path) -> None:
    store = stored(path)
    store.save([TOTALS], {})
    assert find_in_file(path, "12") == (TOTALS,)
    with pytest.raises(sqlite3.Error):
        find_in_file(path.with_name("none.sqlite"), "12")
    assert not path.with_name("none.sqlite").exists()


def snapshot(*views: JobView) -> Snapshot:
    measured = GpuView(gpu(), None, None, None, sampled_at=42.0)
    return Snapshot(50.0, (measured,), health(), jobs=views)


class Page:
    """What a writer looks at."""

    def __init__(self, *views: JobView) -> None:
        self.now: Snapshot | None = snapshot(*views)

    def writer(self, path: Path, interval: float = 3600.0) -> StateWriter:
        return StateWriter(path, interval, lambda: self.now, "n1")


def test_the_keeper_writes_at_the_end_and_when_woken(path: Path) -> None:
    page = Page(VIEW)
    writer = page.writer(path)
    writer.open()
    writer.start()
    writer.wake()
    until(lambda: writer.find("12"))
    page.now = snapshot(replace(VIEW, updated=NOW + 100))
    writer.stop(5.0)
    saved = stored(path).load()
    assert [job.updated for job in saved.running] == [NOW + 100]
    assert saved.counted_until == {gpu().key: 42.0}


def test_a_disk_that_hangs_under_the_writer_holds_up_nobody_who_asks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, go_on = threading.Event(), threading.Event()
    save = StateFile.save

    def hang(*arguments: Any) -> None:
        hanging.set()
        go_on.wait()
        save(*arguments)

    monkeypatch.setattr(StateFile, "save", hang)
    writer = Page(VIEW).writer(path)
    writer.start()
    writer.wake()
    hanging.wait()
    assert writer.find("12") == ()
    go_on.set()
    until(lambda: writer.find("12"))
    writer.stop(5.0)


def test_a_job_that_ended_is_written_once(path: Path) -> None:
    ended = replace(VIEW, ended=NOW)
    page = Page(ended)
    writer = page.writer(path, interval=0.01)
    writer.start()
    until(lambda: writer.writes["written"] > 2)
    change(path, "DELETE FROM jobs")
    written = writer.writes["written"]
    until(lambda: writer.writes["written"] > written + 2)
    assert writer.find("12") == ()
    writer.stop(5.0)


def test_a_path_that_cannot_be_written_is_counted_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    writer = Page(VIEW).writer(in_the_way / "state.sqlite", interval=0.01)
    assert writer.open().running == ()
    writer.start()
    until(lambda: writer.writes["failed"] > 3)
    assert writer.find("12") == ()
    writer.stop(5.0)
    assert caplog.text.count("cannot be used") == 1


def is_set_aside(path: Path, writer: StateWriter) -> bool:
    """Damage the file in place until the writer sees it: what a commit has just put back needs it again.

    A file that is cut to nothing first is a new one to SQLite, not a damaged one.
    """
    if not writer.set_aside:
        with path.open("r+b") as file:
            file.write(b"\0" * path.stat().st_size)
    return writer.set_aside > 0


def test_a_file_that_is_damaged_under_the_agent_is_replaced(path: Path) -> None:
    writer = Page(VIEW).writer(path, interval=0.01)
    writer.start()
    until(lambda: writer.writes["written"] > 1)
    until(lambda: is_set_aside(path, writer))
    written = writer.writes["written"]
    until(lambda: writer.writes["written"] > written)
    writer.stop(5.0)
    assert stored(path).find("12")


def is_found(path: Path, job_id: str) -> bool:
    try:
        return bool(find_in_file(path, job_id))
    except sqlite3.Error:
        return False


@pytest.mark.parametrize("other", [None, b"", b"another agent's, damaged"])
def test_a_file_that_is_removed_or_replaced_under_the_agent_is_written_anew(
    path: Path, other: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    ended = replace(VIEW, job=replace(VIEW.job, job_id="13"), ended=NOW)
    writer = Page(VIEW, ended).writer(path, interval=0.01)
    writer.start()
    until(lambda: writer.writes["written"] > 1)
    if other is None:
        path.unlink()
    else:
        path.with_name("other").write_bytes(other)
        path.with_name("other").replace(path)
    until(lambda: is_found(path, "12") and is_found(path, "13"))
    writer.stop(5.0)
    assert caplog.text.count("removed or replaced") == 1


def test_a_full_disk_is_counted_and_the_next_write_makes_up_for_it(path: Path) -> None:
    """RLIMIT_FSIZE makes the kernel refuse the write, as a full disk does."""
    program = textwrap.dedent(
        f"""
        import resource, signal
        from pathlib import Path
        from tests.jobs.test_state_file import Page, VIEW, until, replace
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        page = Page(VIEW)
        writer = page.writer(Path({str(path)!r}), interval=0.01)
        writer.start()
        until(lambda: writer.writes["written"] > 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        until(lambda: writer.writes["failed"] > 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        written = writer.writes["written"]
        until(lambda: writer.writes["written"] > written)
        assert writer.set_aside == 0
        assert writer.find("12")
        writer.stop(5.0)
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
