"""Has the settings of Slurm as a scheduler."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.support.durations import Seconds

AUTO_RANK: int | None = 1


class Options(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """Where the job files are, and how long they are believed."""

    job_dir: Path = Field(default=job_files.DIRECTORY, examples=["DIR"])
    """Directory of the files that `ofu-exporter job` writes."""
    slurm_poll: Seconds = Field(default=0.25, gt=0, examples=["1s"])
    """Time between two reads of that directory."""
    dcgm_job_dir: Path | None = Field(default=None, examples=["DIR"])
    """Directory of dcgm-exporter's job mapping, which is read as well."""
    job_max_age: Seconds = Field(default=30 * 86400.0, gt=0, examples=["720h"])
    """Age of a job at which its file is rejected."""
