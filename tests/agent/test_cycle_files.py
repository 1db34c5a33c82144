"""Restarts in NVRx's files: recordings/nvrx/README.md says how they were made."""

from __future__ import annotations

import errno
import json
import logging
import os
import pwd
import shutil
import threading
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ofu_exporter.agent import cycle_files
from ofu_exporter.agent.attribution import Attribution
from ofu_exporter.agent.cycle_files import MOST_CYCLES, CycleFiles
from ofu_exporter.support import small_files
from ofu_exporter.support.regular_files import opened
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.snapshot import JobView, Snapshot, SourceHealth
from tests.helpers.agent import until

RECORDED = Path(__file__).parents[1] / "recordings/nvrx/cycle_infos"
JOB = Job("slurm", "4711", user="ada")
SECOND_FAILURE = datetime(2026, 11, 27, 9, 13, 36, 377_000, timezone.utc).timestamp()
"""Until then, by the log of these cycles, there was one restart."""


def looked(folder: str, *jobs: Job) -> CycleFiles:
    views = tuple(JobView(job, 0.0) for job in jobs or (JOB,))
    files = CycleFiles(folder, lambda: Snapshot(0.0, (), SourceHealth("nvml"), views))
    files.look()
    return files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(RECORDED, tmp_path / "4711", symlinks=True)
    return tmp_path / "4711"


def named(folder: Path, job_id: str) -> Job:
    """Another job with the same files."""
    copy = shutil.copytree(folder, folder.parent / job_id, symlinks=True)
    for each in list(copy.iterdir()):
        each.rename(each.with_name(each.name.replace("4711", job_id)))
    return replace(JOB, job_id=job_id)


def test_two_failures_and_one_after_a_requeue_are_three_restarts(folder: Path) -> None:
    assert looked(str(folder)).restarts(JOB) == 3, "the requeue is Slurm's"
    assert looked(str(folder.parent / "%j")).restarts(JOB) == 3
    assert looked(str(folder)).restarts(replace(JOB, job_id="4712")) is None


def test_files_are_those_of_the_array(folder: Path) -> None:
    task = Job("slurm", "4720", array_job_id="4711", array_task_id="1")
    path = str(folder.parent / "%j")
    assert looked(path, task).restarts(task) == 3


def test_what_was_before_the_job_was_seen_here_is_not_counted(folder: Path) -> None:
    """Restarts of earlier tasks of its array, and those that no agent has watched."""
    view = JobView(JOB, SECOND_FAILURE - 0.1)
    files = CycleFiles(str(folder), lambda: Snapshot(0.0, (), SourceHealth("nvml"), (view,)))
    files.look()
    assert files.restarts(JOB) == 2


def test_a_file_that_is_half_written_counts_once_it_is_whole(folder: Path) -> None:
    last = folder / "cycle_info.4711.1.1"
    whole = last.read_text()
    files = CycleFiles(
        str(folder), lambda: Snapshot(0.0, (), SourceHealth("nvml"), (JobView(JOB, 0.0),))
    )
    for part in ("", whole[: len(whole) // 2], '{"cycle_start_time": 7}', "[]", "[" * 10_000):
        last.write_text(part)
        files.look()
        assert files.restarts(JOB) == 2
    last.write_text(whole)
    files.look()
    assert files.restarts(JOB) == 3


def test_files_of_another_user_than_the_jobs_and_root_do_not_count(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forged = [folder / f"cycle_info.4711.1.{number}" for number in (2, 3)]
    for each in forged:
        each.write_text(json.dumps({"cycle_start_time": "2026-11-27T09:13:37Z"}))
        if os.geteuid() == 0:
            os.chown(each, 65534, 65534)
    own = pwd.getpwuid(forged[0].stat().st_uid).pw_name
    assert looked(str(folder), replace(JOB, user=own)).restarts(JOB) == 5
    assert looked(str(folder), replace(JOB, user="no-such-user")).restarts(JOB) == 5
    others = looked(str(folder), replace(JOB, user="daemon"))
    others.look()
    assert others.restarts(JOB) == (3 if os.geteuid() == 0 else 0)
    (record,) = caplog.records
    assert "are another user's" in record.message


def test_a_link_to_a_cycle_of_the_job_is_no_other_cycle(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = pwd.getpwuid(folder.stat().st_uid).pw_name
    for number in range(2, 9):
        (folder / f"cycle_info.4711.1.{number}").symlink_to(folder / "cycle_info.4711.1.1")
    assert looked(str(folder), replace(JOB, user=own)).restarts(JOB) == 3
    assert "are another user's" in caplog.text, "who could lay it may be nobody of the job"


def test_what_is_no_cycle_of_the_job_counts_nothing(folder: Path) -> None:
    begun = json.dumps({"cycle_start_time": "2026-11-27T09:13:37Z"})
    for name in ("cycle_info.4711.1.2.tmp", "cycle_info.47110.1.2", "cycle_info.4711.x.2", "a"):
        (folder / name).write_text(begun)
    os.mkfifo(folder / "cycle_info.4711.1.3")
    (folder / "cycle_info.4711.1.4").symlink_to("/dev/zero")
    (folder / "cycle_info.4711.1.5").write_text(begun + " " * (1 << 20))
    assert looked(str(folder)).restarts(JOB) == 3


@pytest.mark.slow
def test_what_is_none_of_nvrx_is_read_once_and_hides_no_cycle(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ofu_exporter.agent.cycle_files")
    for number in range(2 * MOST_CYCLES):
        (folder / f"cycle_info.4711.{number}.0").write_text("[" * 1000)
    view = JobView(JOB, 0.0)
    files = CycleFiles(str(folder), lambda: Snapshot(0.0, (), SourceHealth("nvml"), (view,)))

    def read_count() -> int:
        files.look()  # one look lasts three seconds at most, and what it began goes on
        return sum("none of NVRx" in line for line in caplog.messages)

    until(lambda: read_count() >= 2 * MOST_CYCLES)
    until(lambda: read_count() and files.restarts(JOB) is not None)
    assert read_count() == 2 * MOST_CYCLES
    assert files.restarts(JOB) == 1, (
        "those of the first cycles, which are none of NVRx now, are lost"
    )


@pytest.mark.slow
def test_ten_thousand_cycles_cost_no_more_than_five_hundred(folder: Path) -> None:
    begun = json.dumps({"cycle_start_time": "2026-11-27T09:13:37Z"})
    for number in range(2, 2000):
        (folder / f"cycle_info.4711.1.{number}").write_text(begun)
    files = looked(str(folder))
    while (
        files.restarts(JOB) is None
    ):  # one look lasts three seconds at most, and the next one goes on
        files.look()
    files.look()
    assert 3 < (files.restarts(JOB) or 0) <= MOST_CYCLES


@pytest.mark.parametrize("user", ["../root", "", "a/b", "..", "DOM\\ada"])
def test_a_user_whose_name_is_a_path_has_no_folder(
    folder: Path, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = replace(JOB, user=user)
    assert looked(str(folder.parent) + "/%u/4711", job).restarts(job) is None
    assert f"cannot have its user {user!r} in it: its restarts may be missing" in caplog.text
    assert looked(str(folder.parent)[:-1] + "%u", JOB).restarts(JOB) is None


def test_a_folder_that_cannot_be_read_is_said_once_and_costs_the_others_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a file system answers whose server is away; root may read whatever mode a folder has."""
    other, scan = named(folder, "5"), os.scandir

    def scandir(path: Path) -> object:
        if path == folder:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        return scan(path)

    monkeypatch.setattr("ofu_exporter.agent.cycle_files.os.scandir", scandir)
    views = (JobView(JOB, 0.0), JobView(other, 0.0))
    files = CycleFiles(
        str(folder.parent / "%j"), lambda: Snapshot(0.0, (), SourceHealth("nvml"), views)
    )
    with caplog.at_level(logging.WARNING):
        files.look()
        files.look()
    assert (files.restarts(JOB), files.restarts(other)) == (None, 3), "nobody knows of the first"
    (record,) = caplog.records
    assert record.message.startswith("NVRx's files of job 4711 cannot be read")


def test_no_job_waits_for_the_files_of_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Twenty folders on a hung disk would each cost three seconds of a look."""
    jobs = [named(folder, number) for number in ("5", "6", "7")]
    together, scan = threading.Barrier(len(jobs)), os.scandir

    def scandir(path: Path) -> object:
        together.wait()
        return scan(path)

    monkeypatch.setattr("ofu_exporter.agent.cycle_files.os.scandir", scandir)
    files = looked(str(folder.parent / "%j"), *jobs)
    assert [files.restarts(job) for job in jobs] == [3, 3, 3]
    assert not caplog.records


def test_a_file_that_hung_is_read_once_its_disk_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()

    def hung(path: Path) -> object:
        assert answers.wait(60)
        return opened(path)

    monkeypatch.setattr(small_files, "opened", hung)
    monkeypatch.setattr(small_files, "READ_SECONDS", 0.05)
    view = JobView(JOB, 0.0)
    files = CycleFiles(str(folder), lambda: Snapshot(0.0, (), SourceHealth("nvml"), (view,)))
    files.look()
    assert files.restarts(JOB) is None
    assert "its restarts may be missing" in caplog.text
    answers.set()

    def counted() -> bool:
        files.look()
        return files.restarts(JOB) == 3

    until(counted)


def test_a_folder_that_hangs_costs_its_own_job_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, answers, scan = named(folder, "5"), threading.Event(), os.scandir

    def scandir(path: Path) -> object:
        assert path != folder or answers.wait(60)
        return scan(path)

    monkeypatch.setattr("ofu_exporter.agent.cycle_files.os.scandir", scandir)
    monkeypatch.setattr(cycle_files, "READ_SECONDS", 0.05)
    files = looked(str(folder.parent / "%j"), JOB, other)

    def counted() -> bool:
        files.look()
        return files.restarts(other) == 3

    until(counted)
    assert files.restarts(JOB) is None
    answers.set()


def test_the_jobs_of_its_schedulers_have_these_restarts_beside_theirs() -> None:
    attribution = Attribution(
        [], 60.0, lambda: 0.0, cycles=lambda job: {"0": 0, "3": 3}.get(job.job_id)
    )
    claims = [
        attribution._with_cycles(Claim(Job("slurm", number, restarts=2), ("0",)))
        for number in ("0", "3", "4")
    ]
    assert [(each.job.restarts, each.job.cycles) for each in claims] == [(2, 0), (2, 3), (2, None)]
