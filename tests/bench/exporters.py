"""Measures the agent beside other exporters in one run: `python -m tests.bench.exporters`.

Memory, idle CPU and latency of /metrics over new connections, for ofu-exporter with 8 simulated GPUs, with 8 GPUs
behind the NVML double, and for Debian's prometheus-node-exporter and PyPI's nvitop-exporter (on the same double).
Where one of these is not installed, the command says how it is, measures the others and ends with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.bench.process import cpu_seconds, resident_mib
from tests.doubles.nvml import Scenario
from tests.helpers.prometheus_server import free_port

GPUS = 8


@dataclass(frozen=True)
class Candidate:
    """An exporter that can be started on a port."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


class Other(NamedTuple):
    """An exporter of others."""

    name: str
    flags: tuple[str, ...]
    """PORT and ADDRESS stand for what it serves on."""
    install: str
    note: str = ""

    def path(self) -> str | None:
        """Where it is: beside this interpreter, or on the path."""
        beside = os.path.dirname(sys.executable)
        return shutil.which(self.name, path=os.pathsep.join((beside, os.environ["PATH"])))


OTHERS = (
    Other(
        "prometheus-node-exporter",
        ("--web.listen-address=ADDRESS",),
        "apt-get install --no-install-recommends prometheus-node-exporter, and stop its service",
    ),
    Other(
        "nvitop-exporter",
        ("--bind-address", "127.0.0.1", "--port", "PORT"),
        "pip install nvitop-exporter, in a virtual environment of its own whose bin/ is on the PATH",
        ", nvml double",
    ),
)


def candidates(port: int, scenario: Scenario) -> list[Candidate]:
    ours = (sys.executable, "-m", "ofu_exporter", "run", "--listen", f"127.0.0.1:{port}")
    double = scenario.environment()
    found = [
        Candidate("ofu-exporter, simulate", (*ours, "--source", "simulate"), dict(os.environ)),
        Candidate("ofu-exporter, nvml double", (*ours, "--source", "nvml"), double),
    ]
    address = f"127.0.0.1:{port}"
    for other in OTHERS:
        path = other.path()
        if path is not None:
            words = (
                word.replace("ADDRESS", address).replace("PORT", str(port)) for word in other.flags
            )
            name = f"{other.name} {version(path)}{other.note}"
            found.append(Candidate(name, (path, *words), double))
    return found


def version(path: str) -> str:
    """What the program says of itself."""
    done = subprocess.run((path, "--version"), capture_output=True, text=True, check=True)
    match = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return match[0] if match else ""


@contextlib.contextmanager
def running(candidate: Candidate, port: int) -> Iterator[int]:
    """Start it, wait until it answers, give its process id."""
    process = subprocess.Popen(
        candidate.command,
        env=dict(candidate.environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            threading.Event().wait(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(10)


def get(port: int) -> tuple[float, int]:
    """Milliseconds and bytes of one GET over a new connection."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    size = len(connection.getresponse().read())
    connection.close()
    return (time.perf_counter() - began) * 1000, size


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(candidate: Candidate, port: int, idle: float, gets: int) -> list[str]:
    with running(candidate, port) as pid:
        threading.Event().wait(8)  # past its first window
        get(port)
        before = cpu_seconds(pid)
        threading.Event().wait(idle)
        cpu = (cpu_seconds(pid) - before) / idle
        before_memory = resident_mib(pid)
        single = [get(port)[0] for _ in range(gets)]
        size = get(port)[1]
        with ThreadPoolExecutor(8) as pool:
            parallel = [ms for ms, _ in pool.map(lambda _: get(port), range(gets))]
        return [
            candidate.name,
            f"{before_memory:.1f}",
            f"{resident_mib(pid):.1f}",
            f"{cpu:.2%}",
            f"{quantile(single, 0.5):.2f}",
            f"{quantile(single, 0.99):.2f}",
            f"{quantile(parallel, 0.5):.2f}",
            f"{max(parallel):.1f}",
            f"{size / 1000:.0f}",
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=float, default=60, help="seconds of idle CPU measurement")
    parser.add_argument("--gets", type=int, default=500, help="requests, one after the other")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(Path(folder) / "nvml.scenario", GPUS)
        for index in range(GPUS):
            scenario.gpu(index, uuid=f"GPU-{index}", tensor=0.5, clock_mhz=[1320, 1352, 1384])
        port = free_port()
        print("| exporter | RSS MiB idle | after the load | idle CPU | p50 ms | p99 ms ", end="")
        print("| 8 clients p50 ms | max ms | page kB |\n|---|---|---|---|---|---|---|---|---|")
        for candidate in candidates(port, scenario):
            print(
                "| " + " | ".join(measure(candidate, port, args.idle, args.gets)) + " |", flush=True
            )
    missing = [f"{each.name}: {each.install}" for each in OTHERS if each.path() is None]
    if missing:
        raise SystemExit("not measured, because not installed\n" + "\n".join(missing))


if __name__ == "__main__":
    main()
