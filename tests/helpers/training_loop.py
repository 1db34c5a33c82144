"""A training loop that a test runs inside a job: it saves, fails and goes on, and notes when it did what.

    python training_loop.py NOTES GPU-SCENARIO STEPS [FAIL-AT...]

It begins after the last saved step, and saves each 20 steps. At the n-th of `FAIL-AT` its n-th run fails. A line of
the notes is `begins TIME`, `works TIME` or `step NUMBER BEGIN END`. Of the package it uses the client alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from ofu_exporter.client import Reporter

SAVED_EACH = 20
STEP_SECONDS = 0.2
START_SECONDS = 2.5


def main() -> None:
    notes, scenario, steps = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    done = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    run = sum(words[0] == "begins" for words in done)
    fails = dict(enumerate(map(int, sys.argv[4:]))).get(run)
    last = max((int(words[1]) for words in done if words[0] == "step"), default=0)
    with notes.open("a", buffering=1) as file:
        print("begins", time.time(), file=file)
        work = work_of_a_step()
        time.sleep(START_SECONDS)
        with scenario.open("ab", buffering=0) as gpu:
            gpu.write(f"gpu {os.environ['SLURM_JOB_GPUS']} tensor 0.5\n".encode())
        print("works", time.time(), file=file)
        with Reporter(every=0.4, gpus=1, precision="bf16") as reporter:
            for step in range(last - last % SAVED_EACH + 1, steps + 1):
                begin = time.time()
                work()
                time.sleep(max(0.0, begin + STEP_SECONDS - time.time()))
                print("step", step, begin, time.time(), file=file)
                reporter.report(mfu=0.3, step=step, start=begin)
                if step == fails:
                    raise SystemExit(1)
            reporter.close(
                60.0
            )  # where all cores are busy, the last report takes longer than usual


def work_of_a_step() -> Callable[[], object]:
    """Some work of the PyTorch with which the job runs; nothing where it has none."""
    try:
        import torch
    except ImportError:
        return lambda: None
    one = torch.ones(64, 64)
    return lambda: (one @ one).sum().item()


if __name__ == "__main__":
    main()
