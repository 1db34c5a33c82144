"""Ten thousand jobs through one agent: its memory, its series and its page, as the jobs come and go.

    python -m tests.bench.jobs [JOBS]

Run by hand; takes about a minute per two thousand jobs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from tests.bench.process import resident_mib
from tests.helpers.agent import COMMAND, Agent, agent, until

GPUS = 8
EVERY = 1000


def main(count: int) -> None:
    """Give every GPU to one job after the other, each for as long as it takes to be seen."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs"
        jobs.mkdir(mode=0o755)
        flags = [
            *("run", "--source", "simulate", "--simulated-gpus", str(GPUS), "--interval", "1s"),
            *("--scheduler", "slurm", "--job-dir", str(jobs), "--slurm-poll", "0.02s"),
            *("--state-file", str(Path(folder) / "state.sqlite"), "--state-interval", "5s"),
        ]
        with agent(*flags, command=COMMAND) as running:
            until(lambda: running.value("ofu_gpu_up", gpu="0"))
            print("| jobs until then | shown | RSS MiB | series | page ms |\n|---|---|---|---|---|")
            show(running, 0)
            for first in range(0, count, GPUS):
                churn(running, jobs, first)
                if (first // GPUS + 1) * GPUS % EVERY < GPUS:
                    show(running, first + GPUS)


def churn(running: Agent, folder: Path, first: int) -> None:
    """One job on every GPU, seen by the agent, then gone."""
    boot = boot_id()
    for gpu in range(GPUS):
        job = Job("slurm", str(first + gpu + 1), name="short", started=float(round(time.time())))
        job_files.write(folder, JobFile(Claim(job, (str(gpu),)), None, boot))
    last = str(first + GPUS)
    until(lambda: f'"{last}"' in running.get("/v1/jobs")[1])
    for gpu in range(GPUS):
        job_files.remove(folder, str(first + gpu + 1))


def show(running: Agent, done: int) -> None:
    """One line of the table."""
    resident = resident_mib(running.process.pid)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        _, page = running.get("/metrics")
        times.append(time.perf_counter() - begin)
    series = sum(1 for line in page.splitlines() if not line.startswith("#"))
    seen = running.get("/v1/jobs")[1].count('"job_id"')
    page_ms = 1e3 * sorted(times)[10]
    print(f"| {done} | {seen} | {resident:.1f} | {series} | {page_ms:.2f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
