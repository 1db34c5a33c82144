"""A node whose jobs a test starts and stops, for an agent on simulated GPUs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from ofu_exporter.schedulers.slurm import ended_files, job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from tests.helpers.agent import Agent

GPUS = 4
WINDOW = 0.2
SYNC = 0.5


class Node:
    """A node whose jobs a test starts and stops."""

    def __init__(self, folder: Path) -> None:
        self.jobs = folder / "jobs"
        self.jobs.mkdir(mode=0o755, parents=True)
        self.state = folder / "state.sqlite"

    def start(self, job_id: str, *gpus: str) -> None:
        self.note(Job("slurm", job_id, name="llama", user="ada"), *gpus)

    def note(self, job: Job, *gpus: str) -> None:
        """Start a job of which more is known."""
        job = replace(job, started=float(int(time.time())))
        job_files.write(self.jobs, JobFile(Claim(job, gpus), None, boot_id()))

    def stop(self, job_id: str) -> None:
        """The job's file goes as that of a job whose end nobody has noted."""
        job_files.remove(self.jobs, job_id)

    def end(self, job_id: str) -> None:
        """The job ends by its epilog."""
        ended_files.put_aside(self.jobs, job_id, time.time())

    def flags(self) -> list[str]:
        return [
            *("run", "--source", "simulate", "--simulated-gpus", str(GPUS)),
            *("--interval", f"{WINDOW}s", "--clock-interval", f"{WINDOW / 2}s"),
            *("--scheduler", "slurm", "--job-dir", str(self.jobs), "--slurm-poll", "0.05s"),
            *("--state-file", str(self.state), "--state-interval", f"{SYNC}s"),
        ]


def seconds(running: Agent, job_id: str = "7") -> float:
    """GPU-seconds of the job until now."""
    return running.value("ofu_job_gpu_seconds_total", job_id=job_id) or 0.0
