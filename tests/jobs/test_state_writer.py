"""The writer of the state file: when it writes, and what becomes of a disk or file that fails under it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.jobs.state_file import Saved, StateFile, find_in_file
from ofu_exporter.jobs.state_writer import StateWriter
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot
from tests.helpers.agent import until
from tests.helpers.stored_job import NOW, VIEW, change
from tests.helpers.values import gpu, health


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "state.sqlite"


def load(path: Path) -> Saved:
    """What the next agent would go on with."""
    with closing(StateFile(path)) as store:
        return store.load(NOW)


def snapshot(*views: JobView) -> Snapshot:
    measured = GpuView(gpu(), None, None, None, sampled_at=42.0)
    return Snapshot(50.0, (measured,), health(), jobs=views)


class Page:
    """What a writer looks at."""

    def __init__(self, *views: JobView) -> None:
        self.now: Snapshot | None = snapshot(*views)

    def writer(self, path: Path, interval: float = 3600.0) -> StateWriter:
        return StateWriter(path, interval, lambda: self.now, "n1")


def test_the_writer_writes_at_the_end_and_when_woken(path: Path) -> None:
    page = Page(VIEW)
    writer = page.writer(path)
    writer.open()
    writer.start()
    writer.wake()
    until(lambda: writer.find("12"))
    page.now = snapshot(replace(VIEW, updated=NOW + 100))
    writer.stop(5.0)
    saved = load(path)
    assert [job.updated for job in saved.jobs] == [NOW + 100]
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


def test_a_run_that_began_and_ended_between_two_writes_is_written(path: Path) -> None:
    page = Page(replace(VIEW, ended=NOW))
    writer = page.writer(path)
    writer.start()
    writer.wake()
    until(lambda: writer.find("12"))
    page.now = snapshot(replace(VIEW, ended=NOW + 5, updated=NOW + 5))
    writer.wake()
    until(lambda: writer.find("12")[0].ended == NOW + 5)
    writer.stop(5.0)


def test_a_path_that_cannot_be_written_is_counted_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    writer = Page(VIEW).writer(in_the_way / "state.sqlite", interval=0.01)
    assert writer.open().jobs == ()
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
    assert find_in_file(path, "12")


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
        from tests.jobs.test_state_writer import Page, VIEW, until, replace
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
