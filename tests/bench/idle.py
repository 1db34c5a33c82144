"""Measures what the agent uses while nobody asks it for anything: `python -m tests.bench.idle [SECONDS]`.

Default settings but for the source, the NVML double, which answers at once. CPU time is the scheduler's own count,
to the nanosecond, as a share of one core.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

from tests.bench.process import cpu_seconds, resident_mib, threads
from tests.doubles.nvml import Scenario
from tests.helpers.agent import COMMAND, agent, until

CASES = ((8, "auto"), (8, "none"), (72, "none"))


def measure(gpus: int, scheduler: str, seconds: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(Path(folder) / "nvml.scenario", gpus)
        for index in range(gpus):
            scenario.gpu(index, uuid=f"GPU-{index}", tensor=0.5, clock_mhz=[1320, 1352, 1384])
        flags = ("run", "--source", "nvml", "--scheduler", scheduler)
        with agent(*flags, env=scenario.environment(), command=COMMAND) as running:
            until(lambda: len(running.values("ofu_gpu_utilization_ratio")) == gpus)
            pid = running.process.pid
            before = cpu_seconds(pid)
            threading.Event().wait(seconds)
            share = (cpu_seconds(pid) - before) / seconds
            memory = resident_mib(pid)
            return f"| {gpus} | {scheduler} | {share:.2%} | {memory:.1f} | {threads(pid)} |"


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    print("| GPUs | scheduler | CPU | RSS MiB | threads |\n|---|---|---|---|---|")
    for gpus, scheduler in CASES:
        print(measure(gpus, scheduler, seconds), flush=True)


if __name__ == "__main__":
    main()
