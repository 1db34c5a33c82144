"""`job show` without an id: lists the jobs that the agent of this node has, or those in its state file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ofu_exporter.cli.answers import print_answer
from ofu_exporter.client.channel import default_url
from ofu_exporter.errors import OfuError
from ofu_exporter.jobs.gather import ask_for_all
from ofu_exporter.jobs.state_rows import last_in_file
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.reports.agent_access import AgentAccess
from ofu_exporter.support import tables
from ofu_exporter.support.bounded_get import shown_url
from ofu_exporter.support.percent import percent
from ofu_exporter.support.tables import LEFT, RIGHT


def _name(job: JobTotals) -> str:
    """The id, and the name that Slurm's commands show for a task or a part."""
    also = [alias for alias in job.aliases if job.scheduler == "slurm"]
    return f"{job.job_id} ({', '.join(also)})" if also else job.job_id


_COLUMNS: tuple[tables.Column[JobTotals], ...] = (
    ("JOB", LEFT, _name),
    ("NAME", LEFT, lambda job: job.job_name),
    ("USER", LEFT, lambda job: job.user),
    ("STATE", LEFT, lambda job: "running" if job.ended is None else "ended"),
    ("GPUs", RIGHT, lambda job: f"{round(job.gpu_count, 2):g}"),
    ("OFU", RIGHT, lambda job: percent(job.utilization_ratio)),
    ("GPU-HOURS", RIGHT, lambda job: f"{job.gpu_seconds / 3600:.2f}"),
)


def show(agent: str | None, state_file: Path | None, format_: str) -> None:
    """List the jobs that hold GPUs here or ended lately; where the agent is away, the last of its file.

    Raises OfuError.
    """
    agent = agent or default_url()
    jobs = ask_for_all(agent, AgentAccess(os.environ))
    if isinstance(jobs, str):
        problem = f"the agent at {shown_url(agent)} {jobs}"
        if state_file is None:
            raise OfuError(f"{problem}; --state-file FILE lists the jobs of its state file")
        jobs = _of_file(state_file, problem)
    rows = [_row(job) for job in jobs]
    print_answer(format_, lambda: _text(jobs), lambda: rows)


def _of_file(path: Path, problem: str) -> tuple[JobTotals, ...]:
    try:
        return last_in_file(path)
    except sqlite3.Error as error:
        raise OfuError(f"{problem}; {path}: {error}") from error


def _text(jobs: Sequence[JobTotals]) -> str:
    if not jobs:
        return "No job holds a GPU here, or has ended in the last five minutes"
    return tables.text([tables.table(_COLUMNS, jobs)])


def _row(job: JobTotals) -> dict[str, Any]:
    names = ("scheduler", "job_id", "job_name", "user", "began", "ended", "gpu_seconds")
    of_job = {name: getattr(job, name) for name in names}
    return {**of_job, "gpu_count": job.gpu_count, "utilization_ratio": job.utilization_ratio}
