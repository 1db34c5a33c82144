"""What traces on demand cost a loop of PyTorch: `python -m tests.bench.traced_loop PYTHON [PAIRS]`.

PYTHON is an interpreter that has torch. Its loop runs on one thread without a daemon, with one that it asks, and while
a trace of two seconds is taken, in turn. Steps are counted a second of CPU time of its process, in which the
profiler's threads are, so that others on the machine disturb less.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.end_to_end.test_trace import JOB, ask, flags
from tests.helpers.agent import agent, until

SECONDS, PAIRS = 20.0, 5
LOOP = f"""import time, torch
a = torch.ones(256, 256) / 256
for _ in range(200): a = (a @ a).tanh() + 0.1
steps, began, end = 0, time.process_time(), time.monotonic() + {SECONDS}
while time.monotonic() < end:
    a = (a @ a).tanh() + 0.1
    steps += 1
print(steps / (time.process_time() - began))"""
CASES = ("without", "asks", "traced")


def steps_a_second(python: str, folder: Path, case: str) -> float:
    env = {"SLURM_JOB_ID": JOB, "OMP_NUM_THREADS": "1"}
    if case != "without":
        env |= {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(folder / "s")}
    with subprocess.Popen(
        [python, "-c", LOOP],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as job:
        if case == "traced":
            said = until(lambda: "has asked" not in (done := ask(folder)).stderr and done)
            assert "no GPU work" in said, said
        return float(job.communicate()[0])


def main() -> None:
    python, pairs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else PAIRS
    found: dict[str, list[float]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as made, agent(*flags(Path(made))) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        for number in range(pairs):
            for case in CASES if number % 2 else reversed(CASES):
                found[case].append(steps_a_second(python, Path(made), case))
            print(*(f"{case} {rates[-1]:.0f}" for case, rates in found.items()), flush=True)
    for case in CASES[1:]:
        lost = [1 - one / other for one, other in zip(found[case], found["without"], strict=True)]
        print(f"{case}: {statistics.fmean(lost):.1%} fewer, {min(lost):.1%} to {max(lost):.1%}")


if __name__ == "__main__":
    main()
