"""What the agent costs that a folder of code makes, from outside: by its commands, processes and sockets.

Two or more codes are measured in turns within one sitting, so that they share the same seconds of the same machine.
Only the page is asked for from inside, because no process does that alone.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench import page_cost, scrape
from tests.bench.process import cpu_seconds, resident_mib
from tests.bench.reports import request
from tests.bench.start import of_children
from tests.doubles.nvml import Scenario
from tests.helpers.agent import SOON, Agent, agent, bare_environment, until
from tests.helpers.playback import RECORDINGS

GPUS = 8
JOB = "7"
TURNS = 4
"""Of each code within a sitting; every other turn goes the other way round."""
PAGES = 60
GETS = 100
REPORTS = 50
STARTS = 3
WINDOWS_SECONDS = 4.0
SHORT_WINDOWS = ("--interval", "0.1s", "--clock-interval", "0.05s")
RECORDING = RECORDINGS / "simulated-8gpu.jsonl.gz"


class Code(NamedTuple):
    """A folder of code that `python FOLDER` runs."""

    name: str
    folder: Path

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, str(self.folder))


class CannotRunError(Exception):
    """A code does not do here what is to be measured."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(f"{code.name}: {why}")
        self.code = code


Found = dict[str, list[float]]
"""What each row cost, for each code in the order in which the codes were given."""
Sitting = Callable[[Sequence[Code]], Found]


@contextlib.contextmanager
def blamed(code: Code) -> Iterator[None]:
    """What fails meanwhile is this code's doing; the last line that it said is why."""
    try:
        yield
    except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", None) or str(error) or type(error).__name__
        raise CannotRunError(code, said.strip().splitlines()[-1]) from error


def call(code: Code, *words: str, **environment: str) -> str:
    """What a command prints; `words` are the command's, or a program's and its arguments."""
    done = subprocess.run(
        (*code.command, *words),
        capture_output=True,
        text=True,
        check=True,
        timeout=SOON,
        env=bare_environment(environment),
    )
    return done.stdout


def there_and_back(codes: Sequence[Code], turns: int = TURNS) -> Iterator[int]:
    """The places of the codes in turns: A B C, C B A, and again."""
    forth = range(len(codes))
    for turn in range(turns):
        yield from forth if turn % 2 == 0 else reversed(forth)


def start_job(code: Code, jobs: Path) -> None:
    """Note a job with all GPUs."""
    gpus = ",".join(map(str, range(GPUS)))
    words = ("job", "start", "--no-ask")
    call(code, *words, SLURM_JOB_ID=JOB, SLURM_JOB_GPUS=gpus, OFU_JOB_DIR=str(jobs))


def job_folder(code: Code, name: str) -> Path:
    folder = code.folder / name
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    return folder


def starts(codes: Sequence[Code]) -> Found:
    """CPU time of two commands from their start to their end."""
    found: Found = {name: [0.0] * len(codes) for name in ("--version", "job start")}
    for place in there_and_back(codes, 2 * STARTS):
        code = codes[place]
        jobs = job_folder(code, "noted")
        with blamed(code):
            found["--version"][place] += of_children(partial(call, code, "--version"))
            found["job start"][place] += of_children(partial(start_job, code, jobs))
    return found


def pages(codes: Sequence[Code]) -> Found:
    """CPU time of the page of metrics, rendered and packed anew."""
    found = [0.0] * len(codes)
    for place in there_and_back(codes, 2):
        code = codes[place]
        with blamed(code):
            found[place] += float(call(code, page_cost.__file__, str(RECORDING), str(PAGES)))
    return {"page": found}


def windows(codes: Sequence[Code]) -> Found:
    """CPU time of agents that sample a driver's double, all of them in the same seconds."""
    with contextlib.ExitStack() as stack:
        running: list[Agent] = []
        for code in codes:
            scenario = Scenario(code.folder / "nvml.scenario", GPUS)
            for index in range(GPUS):
                scenario.gpu(index, uuid=f"GPU-{index}", tensor=0.5, clock_mhz=[1320, 1352, 1384])
            flags = ("run", "--source", "nvml", "--scheduler", "none", *SHORT_WINDOWS)
            running.append(stack.enter_context(started(code, *flags, env=scenario.environment())))
        wait_for_gpus(codes, running)
        before = [cpu_seconds(each.process.pid) for each in running]
        time.sleep(WINDOWS_SECONDS)
        after = [cpu_seconds(each.process.pid) for each in running]
    return {"window": [late - early for early, late in zip(before, after, strict=True)]}


@contextlib.contextmanager
def started(code: Code, *flags: str, env: dict[str, str] | None = None) -> Iterator[Agent]:
    """An agent that serves."""
    with contextlib.ExitStack() as stack:
        with blamed(code):
            running = stack.enter_context(agent(*flags, env=env, command=code.command))
        yield running


def wait_for_gpus(codes: Sequence[Code], running: Sequence[Agent]) -> None:
    """Until every page shows every GPU; this is the first scrape."""
    for code, each in zip(codes, running, strict=True):
        with blamed(code):
            until(partial(shows_gpus, each))


def shows_gpus(running: Agent) -> bool:
    return len(running.values("ofu_gpu_utilization_ratio")) == GPUS


def served(codes: Sequence[Code]) -> Found:
    """CPU time of scrapes and reports over kept connections, and memory after the first page."""
    found: Found = {name: [0.0] * len(codes) for name in ("scrape", "packed scrape", "report")}
    with contextlib.ExitStack() as stack:
        running: list[Agent] = []
        for code in codes:
            jobs = job_folder(code, "jobs")
            with blamed(code):
                start_job(code, jobs)
            flags = ("--source", "simulate", "--scheduler", "slurm", "--job-dir", str(jobs))
            running.append(stack.enter_context(started(code, "run", "--interval", "2s", *flags)))
        wait_for_gpus(codes, running)
        found["memory"] = [resident_mib(each.process.pid) for each in running]
        for place in there_and_back(codes):
            with blamed(codes[place]):
                for name, spent in asked(running[place]).items():
                    found[name][place] += spent
    return found


def asked(running: Agent) -> dict[str, float]:
    """CPU time of some scrapes and reports."""
    pid, port = running.process.pid, int(running.url.rpartition(":")[2])
    plain, packed = (scrape.Target("", pid, port, encoding) for encoding in ("identity", "gzip"))
    return {
        "scrape": scrape.measure(plain, GETS, is_kept=True).cpu_ms,
        "packed scrape": scrape.measure(packed, GETS, is_kept=True).cpu_ms,
        "report": of_reports(pid, port),
    }


def of_reports(pid: int, port: int) -> float:
    """CPU time of some reports of a job, after the first that is taken."""
    said = {"job_id": JOB, "mfu": 0.25, "gpus": GPUS, "precision": "bf16", "framework": "megatron"}
    report = request(json.dumps(said).encode())
    with socket.create_connection(("127.0.0.1", port), SOON) as connection:
        until(lambda: is_taken(connection, report))
        before = cpu_seconds(pid)
        for _ in range(REPORTS):
            scrape.get(connection, report)
        return cpu_seconds(pid) - before


def is_taken(connection: socket.socket, report: bytes) -> bool:
    """Whether a report is taken: not before the agent has seen the job."""
    with contextlib.suppress(AssertionError):
        return scrape.get(connection, report) > 0
    return False


def warm_up(codes: Sequence[Code]) -> None:
    """Each code writes its bytecode, and the first one that of the libraries."""
    for code in codes:
        with blamed(code):
            start_job(code, job_folder(code, "noted"))
        with started(code, "run", "--source", "simulate", "--scheduler", "slurm"):
            pass


SITTINGS: tuple[Sitting, ...] = (starts, pages, windows, served)
ROWS = ("--version", "job start", "page", "window", "scrape", "packed scrape", "report", "memory")
"""What all sittings measure."""
