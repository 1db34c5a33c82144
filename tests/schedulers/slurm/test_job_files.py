"""Job files: written in one step, read with suspicion."""

from __future__ import annotations

import json
import math
import os
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.schedulers.slurm.trusted_files import UntrustedFileError
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reasons import ClaimRejection
from tests.helpers.every import every

JOB = Job(
    "slurm",
    "4711",
    name="train llama",
    user="ada",
    account="physics",
    partition="gpu",
    array_job_id="4700",
    array_task_id="11",
    nodes="n[1-2]",
    started=1000.0,
    uid="1000",
    aliases=("4700_11",),
    restarts=3,
)
FILE = JobFile(Claim(JOB, ("GPU-a", "3")), ends=4600.0, boot_id="b")
LEAST = {"version": 1, "job_id": "7", "gpus": ["0"]}


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path / "run" / "jobs"


def parse(**changed: Any) -> JobFile:
    return job_files.parse("7.json", json.dumps({**LEAST, **changed}))


def refusal(**changed: Any) -> ClaimRejection:
    with pytest.raises(UntrustedFileError) as caught:
        parse(**changed)
    return caught.value.reason


def test_what_was_written_is_read(jobs: Path) -> None:
    job_files.write(jobs, FILE)
    assert job_files.read(jobs).values == {"4711.json": FILE}
    assert [path.name for path in jobs.iterdir()] == ["4711.json"], "no temporary file is left"


def test_everybody_can_read_and_root_alone_can_write(jobs: Path) -> None:
    before = os.umask(0o077)
    try:
        job_files.write(jobs, FILE)
    finally:
        os.umask(before)
    for path, mode in ((jobs.parent, 0o755), (jobs, 0o755), (jobs / "4711.json", 0o644)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_directory_that_is_there_is_left_as_it_is(jobs: Path) -> None:
    jobs.mkdir(parents=True, mode=0o700)
    job_files.write(jobs, FILE)
    assert stat.S_IMODE(jobs.stat().st_mode) == 0o700


def test_a_file_is_replaced_as_a_whole(jobs: Path) -> None:
    job_files.write(jobs, FILE)
    with (jobs / "4711.json").open() as before:
        job_files.write(jobs, FILE._replace(ends=None))
        assert json.load(before)["ends"] == 4600.0, "who has the old one open reads it to its end"
    assert job_files.read(jobs).values["4711.json"].ends is None


def test_nothing_is_written_where_others_could_have_put_it(jobs: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    jobs.parent.mkdir()
    jobs.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SchedulerError):
        job_files.write(jobs, FILE)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_write_that_fails_leaves_nothing(jobs: Path) -> None:
    (jobs / "4711.json").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        job_files.write(jobs, FILE)
    assert [path.name for path in jobs.iterdir()] == ["4711.json"]


def test_removing_says_whether_there_was_a_file(jobs: Path) -> None:
    assert not job_files.remove(jobs, "4711")
    job_files.write(jobs, FILE)
    assert job_files.remove(jobs, "4711")
    assert not job_files.remove(jobs, "4711")


def test_what_killed_writers_left_is_removed_after_a_minute(jobs: Path) -> None:
    jobs.mkdir(parents=True)
    now = time.time()
    for name, age in ((".1.00ff.tmp", 61), (".2.00ff.tmp", 59), (".lock", 61), ("3.json", 61)):
        (jobs / name).touch()
        os.utime(jobs / name, (now - age, now - age))
    job_files.remove_temporaries(jobs, now)
    assert {path.name for path in jobs.iterdir()} == {".2.00ff.tmp", ".lock", "3.json"}
    job_files.remove_temporaries(jobs / "nowhere", now)


def test_only_three_fields_are_needed() -> None:
    assert parse() == JobFile(Claim(Job("slurm", "7"), ("0",)))


def test_fields_that_a_later_version_may_add_are_left_alone() -> None:
    assert parse(color="red") == parse()


@every(["7", "seven.json", "7.json.json", "07.json", "-7.json", "\u0667.json", "7.txt", ".json"])
def test_a_name_that_is_no_job(name: str) -> None:
    with pytest.raises(UntrustedFileError) as caught:
        job_files.parse(name, json.dumps(LEAST))
    assert caught.value.reason is ClaimRejection.BAD_JOB_ID


@every(["8", "07", 7, None, ""])
def test_a_file_must_be_about_the_job_of_its_name(job_id: object) -> None:
    assert refusal(job_id=job_id) is ClaimRejection.BAD_JOB_ID


@every(
    [
        {"version": 2},
        {"version": None},
        {"gpus": None},
        {"gpus": []},
        {"gpus": "0"},
        {"gpus": [0]},
        {"gpus": ["0"] * 1025},
        {"gpus": ["G\nPU"]},
        {"name": 5},
        {"name": None},
        {"name": "x" * 257},
        {"name": "a\nb"},
        {"name": "\x1b[31m"},
        {"name": "\u202egnp"},
        {"name": "\ud800"},
        {"nodes": ["n1"]},
        {"started": "1000"},
        {"started": True},
        {"started": -1},
        {"started": math.nan},
        {"started": math.inf},
        {"started": 1e12},
        {"ends": []},
        {"boot_id": 1},
        {"restarts": "3"},
        {"restarts": -1},
        {"restarts": True},
        {"restarts": 2.0},
        {"restarts": 10**30},
    ]
)
def test_what_is_malformed(changed: dict[str, Any]) -> None:
    assert refusal(**changed) is ClaimRejection.MALFORMED


MANY_DIGITS = json.dumps({**LEAST, "started": "~"}).replace('"~"', "9" * 5000)


@every(["", "{", "[]", '"7"', "[" * 60_000, MANY_DIGITS])
def test_what_is_not_a_json_object(text: str) -> None:
    with pytest.raises(UntrustedFileError) as caught:
        job_files.parse("7.json", text)
    assert caught.value.reason is ClaimRejection.MALFORMED


def test_a_device_named_twice_is_one() -> None:
    assert parse(gpus=["1", "0", "1"]).claim.devices == ("1", "0")


def test_a_start_is_known_to_the_millisecond_where_the_prolog_ran_at_once() -> None:
    """Slurm gives whole seconds, always too early."""
    assert parse(started=1000, noted=1000.7).claim.job.started == 1000.7
    assert parse(started=1000, noted=1001.9).claim.job.started == 1001.9
    assert parse(started=1000, noted=1002.1).claim.job.started == 1000, "another prolog was slow"
    assert parse(started=1000, noted=999.9).claim.job.started == 1000, "the clocks differ"


def test_a_job_is_known_by_the_names_that_slurms_commands_give_it() -> None:
    task = parse(array_job_id="81", array_task_id="4").claim.job
    part = parse(component="8+1").claim.job
    assert (task.aliases, part.aliases) == (("81_4",), ("8+1",))
    assert parse().claim.job.aliases == ()


def test_a_part_of_a_heterogeneous_job_is_written(jobs: Path) -> None:
    job = replace(JOB, aliases=("4700_11", "8+1"))
    job_files.write(jobs, FILE._replace(claim=Claim(job, ("0",))))
    (file,) = job_files.read(jobs).values.values()
    assert file.claim.job == job


def test_two_runs_of_a_job_id_are_told_apart() -> None:
    """A requeued job keeps its id."""
    first, second = parse(started=1000).claim.job, parse(started=2000).claim.job
    assert first.key == second.key
    assert first.uid != second.uid


def test_a_run_of_which_only_the_shell_has_told_is_another_one_than_the_last() -> None:
    """Between the two writes of the second run's file an agent may look."""
    before = parse(started=1000, noted=1001).claim.job
    shells, whole = parse(noted=2001).claim.job, parse(started=2000, noted=2001).claim.job
    assert not before.is_same_run(shells)
    assert shells.is_same_run(whole)
    assert shells.uid == whole.uid


@given(st.text(max_size=600))
def test_whatever_a_user_calls_a_job_its_file_can_be_read(name: str) -> None:
    assert parse(name=job_files.clean(name)).claim.job.name == job_files.clean(name)


@given(st.text())
def test_a_good_name_stays_as_it_is(name: str) -> None:
    if name.isprintable() and len(name) <= 256:
        assert job_files.clean(name) == name


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*LEAST, "name", "started", "ends", "nodes"]), json_values))
def test_any_json_is_read_or_refused(changed: dict[str, Any]) -> None:
    try:
        file = parse(**changed)
    except UntrustedFileError:
        return
    assert file.claim.devices
    assert file.claim.job.started is None or 0 <= file.claim.job.started < math.inf
