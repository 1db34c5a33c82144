"""The thread that writes the state file: what it does when the file, the disk or a value fails."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.jobs.state_file import KEEP_SECONDS, Saved, StateFile, open_store
from ofu_exporter.jobs.state_rows import find_in_file
from ofu_exporter.jobs.state_writer import StateWriter
from ofu_exporter.support.boot import boot_id, uptime
from ofu_exporter.values.gpu import Gpu, GpuKey
from ofu_exporter.values.job import GpuUsage
from ofu_exporter.values.reported import ReportsView
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot
from tests.helpers.agent import until
from tests.helpers.stored_job import NOW, TOTALS, VIEW, change, saved
from tests.helpers.values import gpu, health


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "state.sqlite"


def sampled(device: Gpu, at: float = 42.0) -> GpuView:
    return GpuView(device, None, None, None, sampled_at=at)


def snapshot(*views: JobView) -> Snapshot:
    return Snapshot(50.0, (sampled(gpu()),), health(), jobs=views)


class Page:
    """What a writer looks at."""

    def __init__(self, *views: JobView) -> None:
        self.now: Snapshot | None = snapshot(*views)

    def writer(self, path: Path, interval: float = 3600.0) -> StateWriter:
        return StateWriter(path, interval, lambda: self.now, "n1")


def test_the_state_writer_writes_at_the_end_and_when_woken(path: Path) -> None:
    page = Page(VIEW)
    writer = page.writer(path)
    writer.open()
    writer.start()
    writer.wake()
    until(lambda: writer.find("12"))
    page.now = snapshot(replace(VIEW, updated=NOW + 100))
    writer.stop(5.0)
    assert (writer.writes, writer.set_aside) == ({"written": 2, "failed": 0}, 0)
    found = saved(path)
    assert [job.updated for job in found.jobs] == [NOW + 100]
    assert found.counted_until == {gpu().key: 42.0}
    sampled_at = time.time() - time.monotonic() + 50.0
    assert found.watched_until == pytest.approx(sampled_at, abs=30.0), "not until it was written"
    with closing(sqlite3.connect(path)) as db:
        (mark,) = db.execute("SELECT boot_id, unix - uptime FROM clock")
    assert mark == (boot_id(), pytest.approx(time.time() - uptime(), abs=30.0))


class HangingDisk:
    """Every write of a state file waits until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hangs, self.go_on = threading.Event(), threading.Event()
        save = StateFile.save

        def hang(*arguments: Any) -> None:
            self.hangs.set()
            self.go_on.wait()
            save(*arguments)

        monkeypatch.setattr(StateFile, "save", hang)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> HangingDisk:
    return HangingDisk(monkeypatch)


def test_a_disk_that_hangs_under_the_writer_holds_up_nobody_who_asks(
    path: Path, disk: HangingDisk
) -> None:
    writer = Page(VIEW).writer(path)
    writer.start()
    writer.wake()
    disk.hangs.wait()
    assert writer.find("12") == ()
    disk.go_on.set()
    until(lambda: writer.find("12"))
    writer.stop(5.0)


def test_a_disk_that_hangs_holds_up_neither_the_stop_nor_the_end_of_the_process(
    path: Path, disk: HangingDisk
) -> None:
    writer = Page(VIEW).writer(path)
    writer.start()
    writer.wake()
    disk.hangs.wait()
    writer.stop(0.1)
    (hanging,) = [each for each in threading.enumerate() if each.name == "ofu-state"]
    assert hanging.daemon
    disk.go_on.set()
    hanging.join(5.0)


def test_what_is_on_the_page_at_the_stop_is_written_also_when_a_write_was_under_way(
    path: Path, disk: HangingDisk
) -> None:
    page = Page(VIEW)
    writer = page.writer(path)
    writer.start()
    writer.wake()
    disk.hangs.wait()
    page.now = snapshot(replace(VIEW, updated=NOW + 100))
    writer.stop(0.0)
    disk.go_on.set()
    writer.stop(5.0)
    assert [job.updated for job in saved(path).jobs] == [NOW + 100]


def test_an_agent_that_stops_before_it_has_measured_anything_writes_nothing(path: Path) -> None:
    page = Page()
    page.now = None
    writer = page.writer(path)
    writer.start()
    writer.stop(5.0)
    assert writer.writes == {"written": 0, "failed": 0}


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


def test_what_comes_late_of_a_job_that_ended_is_written(path: Path) -> None:
    """A job's client sends its last report when the job ends, and an agent takes it for minutes."""
    ended = replace(VIEW, ended=NOW)
    page = Page(ended)
    writer = page.writer(path)
    writer.start()
    writer.wake()
    until(lambda: writer.find("12"))
    page.now = snapshot(replace(ended, reports=ReportsView(last=NOW, outcomes={"accepted": 1})))
    writer.stop(5.0)
    (job,) = find_in_file(path, "12")
    assert job.reported is not None
    assert job.reported.outcomes == {"accepted": 1}


def test_a_path_that_cannot_be_written_is_counted_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    path = in_the_way / "state.sqlite"
    writer = Page(VIEW).writer(path, interval=0.01)
    assert writer.open() == Saved((), {})
    assert writer.writes == {"written": 0, "failed": 1}
    writer.start()
    until(lambda: writer.writes["failed"] > 3)
    assert writer.find("12") == ()
    writer.stop(5.0)
    assert writer.writes["written"] == 0
    (record,) = caplog.records
    assert not record.exc_info, "and says enough"
    assert (
        record.message
        == f"state file {path} cannot be used: [Errno 17] File exists: '{in_the_way}'"
    )


def twice_more(writer: StateWriter, outcome: str) -> None:
    before = writer.writes[outcome]
    until(lambda: writer.writes[outcome] > before + 1)


def test_a_failure_is_logged_again_once_it_was_over_though_it_has_no_words(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save, failing = StateFile.save, threading.Event()

    def fail_when_told(*arguments: Any) -> None:
        if failing.is_set():
            raise MemoryError
        save(*arguments)

    monkeypatch.setattr(StateFile, "save", fail_when_told)
    writer = Page(VIEW).writer(path, interval=0.01)
    writer.start()
    for _ in range(2):
        failing.set()
        twice_more(writer, "failed")
        writer.find("12")
        twice_more(writer, "failed")
        failing.clear()
        twice_more(writer, "written")
    writer.stop(5.0)
    assert [line.endswith("cannot be used: ") for line in caplog.messages] == [True, True]


def test_what_is_too_old_is_dropped_by_the_first_write_and_then_now_and_then(path: Path) -> None:
    old = TOTALS.model_copy(update={"updated": NOW - KEEP_SECONDS - 10, "ended": NOW})
    with closing(open_store(path)) as store:
        store.save([old.model_copy(update={"job_id": "1"})], {}, NOW)
    writer = Page(VIEW).writer(path, interval=0.01)
    writer.start()
    until(lambda: writer.writes["written"] > 1)
    assert not is_found(path, "1")
    change(path, f"UPDATE jobs SET job_id = '2', updated = {old.updated}, ended = 1.0")
    written = writer.writes["written"]
    until(lambda: writer.writes["written"] > written + 2)
    writer.stop(5.0)
    assert is_found(path, "2"), "not at every write"


NO_TEXT = "GPU-" + os.fsdecode(b"\xff")
"""Bytes that are no UTF-8, as Python holds them; no file can take them."""


def unwritable() -> Gpu:
    """A GPU that got past the check of its text."""
    device = gpu()
    object.__setattr__(device, "uuid", NO_TEXT)
    return device


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda s: replace(s, gpus=(sampled(unwritable()),)), id="ValueError"),
        pytest.param(lambda s: replace(s, gpus=(sampled(gpu(), 10**30),)), id="OverflowError"),
        pytest.param(lambda s: replace(s, jobs=None), id="TypeError"),
    ],
)
def test_whatever_goes_wrong_with_a_write_is_counted_and_the_next_one_makes_up_for_it(
    path: Path, bad: Callable[[Snapshot], Snapshot], caplog: pytest.LogCaptureFixture
) -> None:
    page = Page(VIEW)
    good = snapshot(VIEW)
    page.now = bad(good)
    writer = page.writer(path, interval=0.01)
    writer.start()
    until(lambda: writer.writes["failed"] > 3)
    assert caplog.text.count("cannot be used") == 1
    assert caplog.records[0].exc_info, (
        "what nobody has thought of is logged with where it came from"
    )
    page.now = good
    until(lambda: writer.find("12"))
    writer.stop(5.0)
    assert saved(path).counted_until == {gpu().key: 42.0}


def test_a_job_with_a_value_that_cannot_be_costs_the_other_jobs_nothing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    no_number = GpuUsage("0", GpuKey("GPU-0", ""), math.nan, 90.0, 45.0)
    bad = replace(VIEW, job=replace(VIEW.job, job_id="13"), usage={no_number.key: no_number})
    writer = Page(bad, VIEW).writer(path)
    writer.start()
    writer.stop(5.0)
    assert writer.writes == {"written": 1, "failed": 1}
    (line,) = caplog.messages
    assert line.startswith("job 13 is left out of the state file: 1 validation error")
    assert [job.job_id for job in saved(path).jobs] == ["12"]


def test_a_job_that_cannot_be_written_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    no_number = GpuUsage("0", GpuKey("GPU-0", ""), math.nan, 90.0, 45.0)
    writer = Page(replace(VIEW, usage={no_number.key: no_number})).writer(path, interval=0.01)
    writer.start()
    until(lambda: writer.writes["failed"] > 3)
    writer.stop(5.0)
    assert len(caplog.messages) == 1


def is_set_aside(path: Path, writer: StateWriter, times: int = 1) -> bool:
    """Damage the file in place until the writer sees it: what a commit has just put back needs it again.

    A file that is cut to nothing first is a new one to SQLite, not a damaged one.
    """
    if writer.set_aside < times:
        with suppress(FileNotFoundError), path.open("r+b") as file:  # it is being set aside
            file.write(b"\0" * path.stat().st_size)
    return writer.set_aside >= times


def test_a_file_that_is_damaged_under_the_agent_is_replaced(path: Path) -> None:
    writer = Page(VIEW).writer(path, interval=0.01)
    writer.start()
    until(lambda: writer.writes["written"] > 1)
    until(lambda: is_set_aside(path, writer))
    written = writer.writes["written"]
    until(lambda: writer.writes["written"] > written)
    until(lambda: is_set_aside(path, writer, times=2))
    writer.stop(5.0)
    assert writer.set_aside == len([*path.parent.glob("*.damaged-*")])
    assert is_found(path, "12")


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
    line = f"state file {path} was removed or replaced: opened again"
    failed = writer.writes["failed"]  # 1 when it happened in the middle of a write
    assert caplog.messages.count(line) + failed == 1


@pytest.mark.slow
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
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
