"""The files of jobs that ended: moved in one step, named after the end, and never too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import ended_files, hooks, job_files
from ofu_exporter.schedulers.slurm.ended_files import MOST_KEPT, EndedName, EndedReader, folder_of
from ofu_exporter.schedulers.slurm.hooks import Node
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.values.job import Claim, Job
from tests.helpers.every import every


def write(directory: Path, job_id: str) -> JobFile:
    job_files.write(directory, JobFile(Claim(Job("slurm", job_id, user="ada"), ("0",)), noted=5.0))
    return job_files.read(directory).values[f"{job_id}.json"]


def end(directory: Path, job_id: str, at: float) -> Path:
    write(directory, job_id)
    assert ended_files.put_aside(directory, job_id, at)
    return folder_of(directory) / f"{job_id}-{at:.0f}.json"


def test_a_file_is_moved_as_it_is_and_named_after_the_end(tmp_path: Path) -> None:
    file = write(tmp_path, "7")
    assert ended_files.put_aside(tmp_path, "7", 1234.9)
    assert job_files.read(tmp_path).values == {}
    (ended,) = ended_files.names(tmp_path)
    assert ended == EndedName(1234.9, "7", "7-1234.900.json")
    assert ended_files.read_one(tmp_path, ended) == file


def test_what_is_not_there_does_not_end(tmp_path: Path) -> None:
    assert not ended_files.put_aside(tmp_path / "nowhere", "7", 5.0)
    assert not ended_files.put_aside(tmp_path, "7", 5.0)
    assert ended_files.names(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@every(
    [
        "7.json",
        "7-.json",
        "-5.json",
        "7-5.json~",
        "7-5..json",
        "7-5.1234.json",
        ".7-5.json",
        "07-5.json",
    ]
)
def test_other_files_are_none_of_these(name: str) -> None:
    assert ended_files.parse_name(name) is None


def test_the_last_end_of_a_job_is_found_by_its_time(tmp_path: Path) -> None:
    end(tmp_path, "7", 100.0)
    end(tmp_path, "8", 300.0)
    end(tmp_path, "7", 200.0)
    assert [each.name for each in ended_files.names(tmp_path)] == [
        "7-100.json",
        "7-200.json",
        "8-300.json",
    ]
    assert ended_files.has_ended_since(tmp_path, "7", 200.9), "of a second the part is not known"
    assert not ended_files.has_ended_since(tmp_path, "7", 201.0)
    assert not ended_files.has_ended_since(tmp_path, "9", 0.0)


def test_the_epilog_keeps_the_last_ones_only(tmp_path: Path) -> None:
    for number in range(MOST_KEPT + 3):
        end(tmp_path, str(number), 1000.0 + number)
    hooks.stop(Node(tmp_path, tmp_path / "tokens"), "9999", lambda _: None, 5000.0)
    kept = ended_files.names(tmp_path)
    assert (len(kept), kept[0].job_id) == (MOST_KEPT, "3")


def test_a_file_that_cannot_be_kept_goes_all_the_same(tmp_path: Path) -> None:
    (tmp_path / ".ended").mkdir()
    (tmp_path / ".ended").chmod(0o777)
    end(tmp_path, "7", 5.0)
    assert job_files.read(tmp_path).values == {}
    assert list((tmp_path / ".ended").iterdir()) == [], "others can write there"
    with pytest.raises(SchedulerError, match="mode 777"):
        ended_files.names(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all files that were read."""
    seen: list[str] = []
    real = ended_files.read_one

    def read_one(directory: Path, ended: EndedName) -> JobFile:
        seen.append(ended.name)
        return real(directory, ended)

    monkeypatch.setattr(ended_files, "read_one", read_one)
    return seen


def test_each_file_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    reader = EndedReader()
    end(tmp_path, "7", 100.0)
    reader.read(folder_of(tmp_path))
    end(tmp_path, "8", 200.0)
    contents = reader.read(folder_of(tmp_path))
    assert [file.claim.job.job_id for file in contents.values.values()] == ["7", "8"]
    assert reads == ["7-100.json", "8-200.json"]


def test_a_file_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    reader = EndedReader()
    path = end(tmp_path, "7", 100.0)
    assert reader.read(folder_of(tmp_path)).values
    path.unlink()
    assert not reader.read(folder_of(tmp_path)).values


def test_a_bad_file_costs_itself(tmp_path: Path) -> None:
    end(tmp_path, "7", 100.0).write_text("not JSON")
    end(tmp_path, "8", 200.0)
    (folder_of(tmp_path) / "notes.txt").write_text("somebody's")
    contents = EndedReader().read(folder_of(tmp_path))
    assert [(each.name, each.reason.value) for each in contents.refused] == [
        ("7-100.json", "malformed")
    ]
    assert list(contents.values) == ["8-200.json"]


def test_of_too_many_the_last_are_read(tmp_path: Path) -> None:
    for number in range(MOST_KEPT + 2):
        end(tmp_path, str(number), 1000.0 + number)
    assert next(iter(EndedReader().read(folder_of(tmp_path)).values)) == "2-1002.json"
