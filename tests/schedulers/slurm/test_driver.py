"""What the slurm scheduler makes of its directories: every claim once, in time, and nothing from doubtful files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import driver, job_files
from ofu_exporter.schedulers.slurm.driver import (
    FULL_SECONDS,
    SETTLE_SECONDS,
    Options,
    Scheduler,
    claims_of_map,
    read_map,
)
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.schedulers.slurm.trusted_files import Contents
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reasons import ClaimRejection, SchedulerReason
from tests.helpers.values import FakeClock

DAY = 86400.0


class Node:
    """A scheduler over two directories, and the clocks that it reads."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.jobs = path / "jobs"
        self.map = path / "map"
        self.clock = FakeClock()
        self.wall = FakeClock(1_800_000_000.0)
        chosen = Options(**{"job_dir": self.jobs, "dcgm_job_dir": self.map, **options})
        self.scheduler = Scheduler(chosen, self.clock, self.wall)

    def write(self, job_id: str, *gpus: str, **changed: Any) -> Path:
        """A job's file, with whatever the test wants to be different."""
        self.jobs.mkdir(exist_ok=True)
        content = {"version": 1, "job_id": job_id, "gpus": gpus, **changed}
        (self.jobs / ".new").write_text(json.dumps(content))
        return (self.jobs / ".new").rename(self.jobs / f"{job_id}.json")

    def map_line(self, device: str, job_id: str) -> None:
        self.map.mkdir(exist_ok=True)
        with (self.map / device).open("a") as file:
            file.write(f"{job_id}\n")

    def end(self, job_id: str, at: float) -> Path:
        """What the epilog does to a job's file."""
        (self.jobs / ".ended").mkdir(exist_ok=True)
        target = self.jobs / ".ended" / f"{job_id}-{at:.0f}.json"
        return (self.jobs / f"{job_id}.json").rename(target)

    def owners(self) -> dict[str, tuple[str, ...]]:
        return {
            claim.job.job_id: claim.devices
            for claim in self.scheduler.claims()
            if claim.ended is None
        }

    def ended(self) -> dict[str, float]:
        return {
            claim.job.job_id: claim.ended
            for claim in self.scheduler.claims()
            if claim.ended is not None
        }

    def settle(self) -> None:
        """Let pass what is waited for after a change, and a tick of the file system's own clock."""
        self.clock.now += SETTLE_SECONDS
        self.owners()
        time.sleep(0.02)

    @property
    def rejected(self) -> Mapping[str, int]:
        return self.scheduler.rejected


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every reading of the job files."""
    seen: list[Path] = []
    real = job_files.read

    def read(directory: Path) -> Contents[JobFile]:
        seen.append(directory)
        return real(directory)

    monkeypatch.setattr(job_files, "read", read)
    return seen


def test_a_file_is_a_claim(node: Node) -> None:
    node.write("7", "GPU-a", "1", name="train", user="ada", started=1_799_999_000)
    job = Job("slurm", "7", name="train", user="ada", started=1_799_999_000.0, uid="1799999000")
    assert list(node.scheduler.claims()) == [Claim(job, ("GPU-a", "1"))]


def test_it_says_that_no_prolog_has_run_yet_and_leaves_the_log_to_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent logs the reason where Slurm was asked for; a node without Slurm has no line of a prolog."""
    caplog.set_level("INFO")
    node = Node(tmp_path, dcgm_job_dir=None)
    for _ in range(2):
        with pytest.raises(SchedulerError) as caught:
            node.scheduler.claims()
        assert caught.value.reason is SchedulerReason.NO_JOB_YET
        assert caught.value.detail == str(node.jobs)
    assert caplog.text == ""


def test_the_directory_is_looked_at_seldom_until_a_hook_has_left_a_file(tmp_path: Path) -> None:
    node = Node(tmp_path, dcgm_job_dir=None)
    for _ in range(2):
        with pytest.raises(SchedulerError):
            node.scheduler.claims()
        assert node.scheduler.poll_seconds == 1.0
    node.write("7", "GPU-a")
    assert node.scheduler.claims()
    assert node.scheduler.poll_seconds == 0.25


def test_a_directory_alone_does_not_say_that_slurm_is_in_use(tmp_path: Path) -> None:
    """A package may have made it, or a mount of a container."""
    node = Node(tmp_path, dcgm_job_dir=None)
    node.jobs.mkdir()
    with pytest.raises(SchedulerError):
        node.scheduler.claims()
    node.write("7", "0")
    assert len(node.scheduler.claims()) == 1
    (node.jobs / "7.json").unlink()
    assert len(node.scheduler.claims()) == 0, "from now on an empty directory is no jobs"


@pytest.mark.parametrize("left", ["7.json", ".ended/7-1000.json"])
def test_whatever_a_hook_has_left_says_that_slurm_is_in_use(tmp_path: Path, left: str) -> None:
    node = Node(tmp_path, dcgm_job_dir=None)
    (node.jobs / ".ended").mkdir(parents=True)
    (node.jobs / left).write_text("{}")
    assert node.scheduler.claims() == ()
    assert node.rejected == {"malformed": 1}


def test_a_job_that_ended_is_told_with_its_end(node: Node) -> None:
    node.write("7", "0", started=1_799_990_000)
    node.write("8", "1")
    before = node.scheduler.claims()[0]
    node.end("7", 1_799_999_000)
    assert (node.owners(), node.ended()) == ({"8": ("1",)}, {"7": 1_799_999_000.0})
    assert replace(before, ended=1_799_999_000.0) in node.scheduler.claims()


def test_an_end_in_the_future_is_another_clocks(node: Node) -> None:
    node.write("7", "0")
    node.end("7", node.wall.now + 5)
    assert node.ended() == {}


def test_a_job_that_was_requeued_is_told_with_both_runs(node: Node) -> None:
    node.write("7", "0", started=1_799_990_000)
    node.end("7", 1_799_991_000)
    node.write("7", "1", started=1_799_992_000)
    assert (node.owners(), node.ended()) == ({"7": ("1",)}, {"7": 1_799_991_000.0})


def test_a_file_that_is_moved_while_it_is_read_is_told_once(node: Node) -> None:
    seven = node.write("7", "0")
    text = seven.read_text()
    node.end("7", 1_799_991_000)
    seven.write_text(text)
    assert (node.owners(), node.ended()) == ({"7": ("0",)}, {})


def test_a_folder_of_ended_jobs_that_is_not_trusted_costs_no_running_job(node: Node) -> None:
    node.write("7", "0")
    node.write("8", "1")
    node.end("7", 1_799_991_000)
    (node.jobs / ".ended").chmod(0o777)
    before = node.scheduler.claims()
    assert (node.owners(), node.ended()) == ({"8": ("1",)}, {})
    node.clock.now += SETTLE_SECONDS
    assert node.scheduler.claims() is before
    assert node.rejected == {"unreadable": 1}


def test_jobs_come_and_go_at_the_next_look(node: Node) -> None:
    assert node.owners() == {}, (
        "no directory is no jobs: it is in memory, and made by the first job"
    )
    seven = node.write("7", "0")
    assert node.owners() == {"7": ("0",)}
    node.settle()
    node.write("8", "1")
    assert node.owners() == {"7": ("0",), "8": ("1",)}
    node.settle()
    seven.unlink()
    assert node.owners() == {"8": ("1",)}
    node.settle()
    (node.jobs / "8.json").unlink()
    node.jobs.rmdir()
    assert node.owners() == {}


def test_two_jobs_on_one_gpu_are_both_told(node: Node) -> None:
    node.write("7", "0")
    node.write("8", "0")
    assert node.owners() == {"7": ("0",), "8": ("0",)}


def test_nothing_is_read_again_while_nothing_changes(tmp_path: Path, reads: list[Path]) -> None:
    node = Node(tmp_path)
    node.write("7", "0")
    node.owners()
    node.settle()
    reads.clear()
    before = node.scheduler.claims()
    node.clock.now += FULL_SECONDS - SETTLE_SECONDS - 0.1
    assert node.scheduler.claims() is before
    assert reads == []


def test_a_second_change_in_the_same_tick_is_seen(node: Node) -> None:
    """The directory's time does not show it."""
    seven = node.write("7", "0")
    status = node.jobs.stat()
    node.owners()
    seven.unlink()
    node.write("8", "0")
    os.utime(node.jobs, ns=(status.st_atime_ns, status.st_mtime_ns))
    node.clock.now += 0.25
    assert node.owners() == {"8": ("0",)}


def test_claims_that_stay_the_same_are_the_same_object(node: Node) -> None:
    """So that who asks need not compare them."""
    node.write("7", "0")
    before = node.scheduler.claims()
    node.clock.now += 0.25
    assert node.scheduler.claims() is before, "though it was read anew"


# What is not believed.


def test_a_bad_file_costs_itself_and_is_counted_and_logged_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.write("7", "0")
    node.write("8", "1", version=2)
    (node.jobs / "README").write_text("hello")
    for _ in range(5):
        assert node.owners() == {"7": ("0",)}
        node.clock.now += FULL_SECONDS
    assert node.rejected == {"malformed": 1, "bad_job_id": 1}
    assert {record.getMessage() for record in caplog.records} == {
        f"{node.jobs}/8.json is rejected (malformed: version is not 1)",
        f"{node.jobs}/README is rejected (bad_job_id: its name is not JOBID.json)",
    }
    assert len(caplog.records) == 2


def test_a_bad_file_that_is_written_anew_and_still_bad_is_counted_again(node: Node) -> None:
    for version in (2, 3):
        path = node.write("8", "1", version=version)
        os.utime(path, (version, version))
        node.owners()
        node.settle()
    assert node.rejected == {"malformed": 2}


def test_a_bad_file_that_is_put_right_is_believed(node: Node) -> None:
    path = node.write("7", "0")
    path.chmod(0o666)
    assert node.owners() == {}
    node.settle()
    path.chmod(0o644)
    node.clock.now += FULL_SECONDS
    assert node.owners() == {"7": ("0",)}


def test_a_job_of_another_boot_holds_nothing(node: Node) -> None:
    node.write("7", "0", boot_id="another")
    node.write("8", "1", boot_id=boot_id())
    assert node.owners() == {"8": ("1",)}
    assert node.rejected == {"other_boot": 1}


def test_where_the_boot_is_not_known_any_file_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "boot_id", lambda: "")
    node = Node(tmp_path)
    node.write("7", "0", boot_id="another")
    assert node.owners() == {"7": ("0",)}


def test_a_job_too_old_holds_nothing_even_if_its_file_does_not_change(node: Node) -> None:
    node.write("7", "0", started=node.wall.now - 30 * DAY + 60)
    assert node.owners() == {"7": ("0",)}
    node.settle()
    for seconds in (FULL_SECONDS, 120.0):
        node.clock.now += seconds
        node.wall.now += seconds
        held = node.owners()
    assert (held, node.rejected) == ({}, {"expired": 1})


def test_how_old_a_job_may_be_is_a_setting(tmp_path: Path) -> None:
    node = Node(tmp_path, job_max_age=DAY)
    node.write("7", "0", started=node.wall.now - DAY - 60)
    node.write("8", "1", started=node.wall.now - DAY + 60)
    assert (node.owners(), node.rejected) == ({"8": ("1",)}, {"expired": 1})


def test_a_time_limit_that_has_passed_changes_nothing(node: Node) -> None:
    """It may have been extended; the agent does not ask."""
    node.write("7", "0", started=node.wall.now - 2 * DAY, ends=node.wall.now - DAY)
    assert node.owners() == {"7": ("0",)}


def test_a_start_that_is_yet_to_come_is_not_known(node: Node) -> None:
    node.write("7", "0", started=node.wall.now + 0.5)
    (claim,) = node.scheduler.claims()
    assert claim.job.started is None
    assert claim.job.uid, "it is the same run of the job all along"
    node.wall.now += 1
    node.clock.now += 1
    (later,) = node.scheduler.claims()
    assert (later.job.started, later.job.uid) == (node.wall.now - 0.5, claim.job.uid)


def test_a_clock_that_is_set_back_neither_hides_a_job_nor_makes_it_negative(node: Node) -> None:
    node.write("7", "0", started=node.wall.now - 60)
    node.owners()
    node.settle()
    node.wall.now -= 365 * DAY
    node.clock.now += FULL_SECONDS
    (claim,) = node.scheduler.claims()
    assert claim.job.started is None


def untrusted(path: Path) -> None:
    path.chmod(0o777)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("spoil", [untrusted, linked])
@pytest.mark.parametrize("which", ["jobs", "map"])
def test_a_directory_that_is_not_trusted_says_nothing_until_it_is(
    node: Node, which: str, spoil: Callable[[Path], None]
) -> None:
    node.write("7", "0")
    node.map_line("1", "8")
    assert len(node.owners()) == 2
    node.settle()
    path = getattr(node, which)
    spoil(path)
    for _ in range(2):
        with pytest.raises(SchedulerError) as caught:
            node.scheduler.claims()
        assert caught.value.reason is SchedulerReason.UNTRUSTED
        assert str(path) in caught.value.detail
    if path.is_symlink():
        path.unlink()
        path.with_name("elsewhere").rename(path)
    path.chmod(0o755)
    assert len(node.owners()) == 2


# dcgm-exporter's job mapping.


def test_the_mapping_for_dcgm_exporter_is_read_as_well(node: Node) -> None:
    node.map_line("0", "7")
    node.map_line("3.2", "7")
    assert list(node.scheduler.claims()) == [Claim(Job("slurm", "7"), ("0", "3.2"))]


def test_a_job_file_says_more_than_the_mapping(node: Node) -> None:
    node.map_line("0", "7")
    node.map_line("1", "8")
    node.write("7", "GPU-a", name="train")
    claims = {claim.job.job_id: claim for claim in node.scheduler.claims()}
    assert (claims["7"].job.name, claims["7"].devices) == ("train", ("GPU-a",))
    assert claims["8"].devices == ("1",)


def test_a_line_written_in_place_is_seen(node: Node) -> None:
    """The directory's time does not change with it."""
    node.map_line("0", "7")
    node.owners()
    node.settle()
    node.clock.now += 1
    node.map_line("0", "8")
    assert node.owners() == {"7": ("0",), "8": ("0",)}
    node.settle()
    (node.map / "0").write_text("")
    assert node.owners() == {}
    (node.map / "0").unlink()
    assert node.owners() == {}


def test_a_bad_file_of_the_mapping_is_named(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.map_line("0", "seven")
    assert node.owners() == {}
    assert node.rejected == {"bad_job_id": 1}
    assert str(node.map / "0") in caplog.text


def test_without_a_mapping_none_is_read(tmp_path: Path) -> None:
    node = Node(tmp_path, dcgm_job_dir=None)
    node.map_line("0", "7")
    node.write("8", "1")
    assert node.owners() == {"8": ("1",)}
    node.scheduler.close()


def test_its_summary_is_one_line() -> None:
    assert driver.__doc__
    assert len(driver.__doc__.split("\n", maxsplit=1)[0]) <= 100


def test_the_files_of_gpus_become_the_gpus_of_jobs(tmp_path: Path) -> None:
    for name, text in {"0": "7\n", "1": "7\n8\n\n8\n", "2": "", "3.13": "9"}.items():
        (tmp_path / name).write_text(text)
    assert claims_of_map(read_map(tmp_path).values) == [
        Claim(Job("slurm", "7"), ("0", "1")),
        Claim(Job("slurm", "8"), ("1",)),
        Claim(Job("slurm", "9"), ("3.13",)),
    ]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """Prologs that lock keep their lock here too."""
    for name in ("lock", "0.lock", "GPU-a", ".0.swp", "1.2.3"):
        (tmp_path / name).write_text("7")
    contents = read_map(tmp_path)
    assert (contents.values, contents.refused) == ({}, [])


@pytest.mark.parametrize("text", ["seven", "7 -8", "07", "7;8", "<html>"])
def test_a_line_that_is_no_job_id_costs_its_gpu(tmp_path: Path, text: str) -> None:
    (tmp_path / "0").write_text(text)
    (tmp_path / "1").write_text("7")
    contents = read_map(tmp_path)
    assert contents.values == {"1": ("7",)}
    (refusal,) = contents.refused
    assert (refusal.name, refusal.reason) == ("0", ClaimRejection.BAD_JOB_ID)
