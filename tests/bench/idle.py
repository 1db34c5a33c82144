"""Measures what the agent uses while nobody asks it for anything: `python -m tests.bench.idle [SECONDS]`.

Default settings but for the source, the NVML double, which answers at once; with `--traces` eight processes ask whether
they are to record, as PyTorch does, every 5 s. CPU time is the scheduler's own count,
to the nanosecond, as a share of one core.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.process import cpu_seconds, resident_mib, threads
from tests.doubles.nvml import Scenario
from tests.helpers.agent import COMMAND, agent, until
from tests.traces.test_daemon_messages import question

TRACES = "none --traces"
CASES = ((8, "auto"), (8, "none"), (8, TRACES), (72, "none"))
ASK_SECONDS = 5.0


def measure(gpus: int, scheduler: str, seconds: float) -> str:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        scenario = Scenario(Path(folder) / "nvml.scenario", gpus)
        for index in range(gpus):
            scenario.gpu(index, uuid=f"GPU-{index}", tensor=0.5, clock_mhz=[1320, 1352, 1384])
        flags = ["run", "--source", "nvml", "--scheduler", *scheduler.split()]
        if scheduler == TRACES:
            flags += ["--trace-socket-folder", f"{folder}/s", "--trace-folder", f"{folder}/t"]
        with agent(*flags, env=scenario.environment(), command=COMMAND) as running:
            until(lambda: len(running.values("ofu_gpu_utilization_ratio")) == gpus)
            pid = running.process.pid
            if scheduler == TRACES:
                some = [stack.enter_context(bound(Path(folder), number)) for number in range(8)]
            before, end = cpu_seconds(pid), time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                if scheduler == TRACES:
                    for number, each in enumerate(some):
                        each.send(question(7, 1 + number))
                time.sleep(min(left, ASK_SECONDS))
            share = (cpu_seconds(pid) - before) / seconds
            memory = resident_mib(pid)
            return f"| {gpus} | {scheduler} | {share:.2%} | {memory:.1f} | {threads(pid)} |"


@contextlib.contextmanager
def bound(folder: Path, number: int) -> Iterator[socket.socket]:
    """A process that asks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(folder / "s" / f"dynoconfigclient{number}"))
        made.connect(str(folder / "s" / "dynolog"))
        yield made


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    print("| GPUs | scheduler | CPU | RSS MiB | threads |\n|---|---|---|---|---|")
    for gpus, scheduler in CASES:
        print(measure(gpus, scheduler, seconds), flush=True)


if __name__ == "__main__":
    main()
