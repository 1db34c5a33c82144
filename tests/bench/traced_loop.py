"""What traces on demand cost a loop of PyTorch: `python -m tests.bench.traced_loop PYTHON [TIMES]`.

PYTHON is an interpreter that has torch. Its loop runs without a daemon and with one that it asks, in turn, and then
before, while and after a trace of two seconds is recorded, which is what its file says. Steps are counted a second of
the loop's own CPU time, so that others on the machine disturb less; the profiler's threads are told apart.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.end_to_end.test_trace import JOB, ask, flags
from tests.helpers.agent import agent, until

SECONDS, TIMES = 5.0, 8
LOOP = """import time, torch
a = torch.ones(256, 256) / 256
for _ in range(200): a = (a @ a).tanh() + 0.1
steps = 0
while True:
    print(time.time(), steps, time.thread_time(), time.process_time(), flush=True)
    for _ in range(20): a = (a @ a).tanh() + 0.1
    steps += 20"""


class Line(NamedTuple):
    """What the loop has done by a time."""

    at: float
    steps: float
    own: float
    """CPU seconds of its thread."""
    all: float
    """CPU seconds of its process."""


def rate(lines: Sequence[Line], since: float, until_: float) -> float:
    """Steps a second of its own CPU time."""
    some = [each for each in lines if since <= each.at <= until_]
    return (some[-1].steps - some[0].steps) / (some[-1].own - some[0].own)


@contextmanager
def looping(python: str, folder: Path, asks: bool) -> Iterator[list[Line]]:
    """What the loop says, from its first line on."""
    env = {"SLURM_JOB_ID": JOB, "OMP_NUM_THREADS": "1"}
    if asks:
        env |= {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(folder / "s")}
    command = [python, "-c", LOOP]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as job:
        assert job.stdout
        lines = [Line(*map(float, job.stdout.readline().split()))]
        reader = threading.Thread(
            target=lambda: lines.extend(
                Line(*map(float, each.split())) for each in job.stdout or ()
            )
        )
        reader.start()
        yield lines
        job.kill()
        reader.join()


def alone(python: str, folder: Path, asks: bool) -> float:
    with looping(python, folder, asks) as lines:
        time.sleep(SECONDS)
    return rate(lines, 0.0, float("inf"))


def traced(python: str, folder: Path) -> tuple[float, float, float, float]:
    """Rates before, while and after a trace is recorded, and the CPU seconds of the profiler's threads."""
    with looping(python, folder, asks=True) as lines:
        time.sleep(SECONDS)
        asked = time.time()
        order = ("--keep", "--format", "json")
        said = until(lambda: (done := ask(folder, *order)).returncode == 0 and done.stdout, 60.0)
        answered = time.time()
        time.sleep(SECONDS)
    (file,) = json.loads(said)["files"]
    trace = json.loads(Path(file).read_text())
    times = [each["ts"] / 1e6 for each in trace["traceEvents"] if each.get("cat") == "cpu_op"]
    began, ended = (trace["baseTimeNanoseconds"] / 1e9 + each for each in (min(times), max(times)))
    others = lines[-1].all - lines[-1].own - lines[0].all + lines[0].own
    rates = rate(lines, 0.0, asked), rate(lines, began, ended), rate(lines, answered, float("inf"))
    return (*rates, others)


def said_of(name: str, lost: Sequence[float]) -> None:
    """Print the median of what was lost, and between which values the middle half lies."""
    low, middle, high = statistics.quantiles(lost, n=4)
    print(f"{name}: {middle:.1%} fewer steps, half of {len(lost)} from {low:.1%} to {high:.1%}")


def main() -> None:
    python, times = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else TIMES
    asks, during, after, threads = [], [], [], []
    with tempfile.TemporaryDirectory() as made, agent(*flags(Path(made))) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        for number in range(times):
            order = (False, True) if number % 2 else (True, False)
            rates = {case: alone(python, Path(made), case) for case in order}
            asks.append(1 - rates[True] / rates[False])
            one, two, three, others = traced(python, Path(made))
            during.append(1 - two / one)
            after.append(1 - three / one)
            threads.append(others)
            print(*(f"{each[-1]:.3f}" for each in (asks, during, after, threads)), flush=True)
    said_of("asked nothing", asks)
    said_of("while recorded", during)
    said_of("after it", after)
    print(f"the profiler's threads: {statistics.median(threads):.1f} s of CPU time a trace")


if __name__ == "__main__":
    main()
