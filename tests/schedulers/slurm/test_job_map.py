"""dcgm-exporter's job mapping: a file per GPU, a job id per line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.schedulers.slurm import job_map
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reasons import ClaimRejection


def test_the_files_of_gpus_become_the_gpus_of_jobs(tmp_path: Path) -> None:
    for name, text in {"0": "7\n", "1": "7\n8\n\n8\n", "2": "", "3.13": "9"}.items():
        (tmp_path / name).write_text(text)
    assert job_map.claims(job_map.read(tmp_path).values) == [
        Claim(Job("slurm", "7"), ("0", "1")),
        Claim(Job("slurm", "8"), ("1",)),
        Claim(Job("slurm", "9"), ("3.13",)),
    ]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """Prologs that lock keep their lock here too."""
    for name in ("lock", "0.lock", "GPU-a", ".0.swp", "1.2.3"):
        (tmp_path / name).write_text("7")
    contents = job_map.read(tmp_path)
    assert (contents.values, contents.refused) == ({}, [])


@pytest.mark.parametrize("text", ["seven", "7 -8", "07", "7;8", "<html>"])
def test_a_line_that_is_no_job_id_costs_its_gpu(tmp_path: Path, text: str) -> None:
    (tmp_path / "0").write_text(text)
    (tmp_path / "1").write_text("7")
    contents = job_map.read(tmp_path)
    assert contents.values == {"1": ("7",)}
    (refusal,) = contents.refused
    assert (refusal.name, refusal.reason) == ("0", ClaimRejection.BAD_JOB_ID)
