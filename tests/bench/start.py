"""Measures the start of three commands in CPU time: `python -m tests.bench.start`.

The median of some runs each, with the bytecode that pip makes when it installs; for `run` until the first page is
served.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.process import cpu_seconds
from tests.helpers.agent import COMMAND, agent

RUNS = 9


@contextlib.contextmanager
def compiled() -> Iterator[None]:
    """Programs that are started meanwhile find bytecode, whatever the environment says, from their second run on."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def of_children(work: Callable[[], object]) -> float:
    """CPU time of the processes that end meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command(*words: str, environment: dict[str, str] | None = None) -> Callable[[], object]:
    whole = (sys.executable, "-m", "ofu_exporter", *words)
    env = {**os.environ, **(environment or {})}
    return lambda: subprocess.run(whole, capture_output=True, check=True, env=env)


def first_page() -> float:
    with agent("run", "--source", "simulate", "--scheduler", "none", command=COMMAND) as running:
        running.get("/metrics")
        return cpu_seconds(running.process.pid)


def median_ms(run: Callable[[], float]) -> str:
    """After one run that is not counted, and writes the bytecode."""
    run()
    return f"{1e3 * statistics.median(run() for _ in range(RUNS)):.0f}"


def main() -> None:
    print("| command | CPU ms |\n|---|---|")
    with compiled(), tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        job = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "OFU_JOB_DIR": folder}
        commands = {
            "python -c pass": lambda: subprocess.run((sys.executable, "-c", "pass"), check=True),
            "ofu-exporter --version": command("--version"),
            "ofu-exporter job start --no-ask": command("job", "start", "--no-ask", environment=job),
        }
        for name, run in commands.items():
            print(f"| `{name}` | {median_ms(partial(of_children, run))} |")
        print(f"| `ofu-exporter run`, first page | {median_ms(first_page)} |")


if __name__ == "__main__":
    main()
