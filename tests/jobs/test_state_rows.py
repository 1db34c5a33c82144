"""Rows of the state file as others read them: by a job's names, beside an agent that runs, the newest first."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ofu_exporter.jobs.state_file import StateFile, open_store
from ofu_exporter.jobs.state_rows import find_in_file, last_in_file
from tests.helpers.stored_job import NOW, TOTALS, change


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[StateFile]:
    with closing(open_store(path)) as store:
        yield store


def test_a_job_whose_text_is_not_utf8_is_left_out(path: Path, store: StateFile) -> None:
    store.save([TOTALS, TOTALS.model_copy(update={"job_id": "13"})], {}, NOW)
    change(path, "UPDATE jobs SET report = CAST(x'7bff' AS TEXT) WHERE job_id = '12'")
    assert [job.job_id for job in store.load(NOW).jobs] == ["13"]
    assert [job.job_id for job in last_in_file(path)] == ["13"]


def test_a_task_is_found_by_the_name_that_slurm_shows(path: Path, store: StateFile) -> None:
    task = TOTALS.model_copy(update={"job_id": "85", "aliases": ("81_4",)})
    store.save([TOTALS, task, TOTALS.model_copy(update={"job_id": "86", "user": "81_4"})], {}, NOW)
    assert store.find("81_4") == (task,)
    assert find_in_file(path, "81_4") == (task,)
    assert store.find("81_5") == store.find("8%_4") == ()


def test_the_jobs_of_a_file_are_listed_newest_first(path: Path, store: StateFile) -> None:
    newer = TOTALS.model_copy(update={"job_id": "13", "updated": TOTALS.updated + 1})
    store.save([TOTALS, newer], {}, NOW)
    assert last_in_file(path) == (newer, TOTALS)


def test_of_many_jobs_of_a_file_the_50_newest_are_listed(path: Path, store: StateFile) -> None:
    jobs = [
        TOTALS.model_copy(update={"job_id": str(n), "updated": TOTALS.updated + n})
        for n in range(60)
    ]
    store.save(jobs, {}, NOW)
    assert last_in_file(path) == tuple(jobs[:9:-1])


def test_a_job_can_be_looked_up_beside_a_running_agent(path: Path, store: StateFile) -> None:
    store.save([TOTALS], {}, NOW)
    assert find_in_file(path, "12") == (TOTALS,)
    with pytest.raises(sqlite3.Error):
        find_in_file(path.with_name("none.sqlite"), "12")
    assert not path.with_name("none.sqlite").exists()


def test_a_pipe_is_no_state_file_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(sqlite3.OperationalError, match="it is not a file"):
        last_in_file(tmp_path / "pipe")
    with pytest.raises(sqlite3.OperationalError, match="it is not a file"):
        find_in_file(tmp_path / "pipe", "12")
