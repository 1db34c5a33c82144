"""The files of ended jobs are read once each, and forgotten with the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.schedulers.slurm import ended_files, job_files
from ofu_exporter.schedulers.slurm.ended_files import MOST_KEPT, EndedName, folder_of
from ofu_exporter.schedulers.slurm.ended_reader import EndedReader
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.values.job import Claim, Job


def end(directory: Path, job_id: str, at: float) -> Path:
    job_files.write(directory, JobFile(Claim(Job("slurm", job_id), ("0",))))
    ended_files.put_aside(directory, job_id, at)
    return folder_of(directory) / f"{job_id}-{at:.0f}.json"


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
