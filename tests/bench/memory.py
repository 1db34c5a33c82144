"""Measures the memory of the agent step by step, and where it goes: `python -m tests.bench.memory`.

Every endpoint is used once, jobs report, and Slurm's files are read; the GPUs are simulated, or those of the page of a
dcgm-exporter that answers at once. The second table is of 8 simulated GPUs at the end of that.
The third one imports, in an interpreter of its own, what the agent rests on, one library after the other.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from tests.bench.process import mapped_mib, resident_mib, threads
from tests.bench.reports import give
from tests.helpers.agent import COMMAND, Agent, agent, page_server, until

PATHS = ("/", "/docs", "/openapi.json", "/v1/jobs", "/v1/gpus", "/v1/history", "/readyz", "/nope")
LIBRARIES = (
    ("asyncio", "asyncio"),
    ("uvicorn with h11", "uvicorn.server, uvicorn.protocols.http.h11_impl"),
    ("pydantic", "pydantic, pydantic.main, pydantic.fields, pydantic.json_schema"),
    ("yaml", "yaml"),
    ("sqlite3", "sqlite3"),
    ("ofu_exporter", "ofu_exporter.cli.run"),
)
IMPORTS = """
import importlib, json, sys
from pathlib import Path
def mib(): return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
found = [mib()]
for names in json.loads(sys.argv[1]):
    for name in names.split(", "): importlib.import_module(name)
    found.append(mib())
print(json.dumps(found))
"""
SMALLEST_MIB = 0.5
PAGE = Path(__file__).parents[1] / "pages" / "new-names.prom"


def page(gpus: int) -> str:
    """A page in the form of dcgm-exporter's, with this many GPUs and other values each time."""
    lines = []
    for line in PAGE.read_text().splitlines():
        series, _, value = line.rpartition(" ")
        if line.startswith("#"):
            lines.append(line)
            continue
        for gpu in range(gpus):
            own = series.replace('gpu="0"', f'gpu="{gpu}"').replace(
                "00000002-bbbb", f"{gpu:08}-bbbb"
            )
            lines.append(f"{own} {float(value) * random.uniform(0.9, 1.0)}")
    return "\n".join(lines) + "\n"


def simulated(gpus: int) -> None:
    """A row of simulated GPUs."""
    used(gpus, f"{gpus}", "--source", "simulate", "--simulated-gpus", str(gpus))


def of_page(gpus: int) -> None:
    """A row of GPUs that a dcgm-exporter measures."""
    with page_server(lambda: page(gpus)) as url:
        source = ("--source", "dcgm-exporter", "--url", url, "--collect-interval", "1s")
        used(gpus, f"{gpus}, a dcgm-exporter's", *source)


def used(gpus: int, name: str, *source: str) -> None:
    """One agent from its start to the end, one row."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs"
        jobs.mkdir(mode=0o755)
        give(jobs)
        flags = [
            *("run", *source),
            *("--scheduler", "slurm", "--job-dir", str(jobs)),
            *("--state-file", str(Path(folder) / "state.sqlite"), "--interval", "1s"),
        ]
        with agent(*flags, command=COMMAND) as running:
            until(lambda: running.values("ofu_job_gpu_seconds_total"))
            pid = running.process.pid
            steps = [resident_mib(pid)]
            for _ in range(20):
                ask(running, "/metrics")
            ask(running, "/metrics", accept="application/openmetrics-text")
            steps.append(resident_mib(pid))
            for path in PATHS:
                ask(running, path)
            steps.append(resident_mib(pid))
            for number in range(1, 9):
                ask(running, "/v1/mfu", {"job_id": str(number), "mfu": 0.9, "precision": "bf16"})
            steps.append(resident_mib(pid))
            shown = " | ".join(f"{step:.1f}" for step in steps)
            print(f"| {name} | {shown} | {threads(pid)} |", flush=True)
            if name == "8":
                MAPPED.update(mapped_mib(pid))


MAPPED: dict[str, float] = {}


def ask(running: Agent, path: str, body: object = None, accept: str = "*/*") -> None:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": accept, "Accept-Encoding": "gzip"}
    request = urllib.request.Request(running.url + path, data=data, headers=headers)
    try:
        urllib.request.urlopen(request, timeout=20).read()
    except urllib.error.HTTPError as error:
        error.close()


def main() -> None:
    print("| GPUs | first windows MiB | scraped | every endpoint | reports | threads |")
    print("|---|---|---|---|---|---|")
    simulated(8)
    simulated(72)
    of_page(8)
    print("\n| what | MiB |\n|---|---|")
    large = {name: mib for name, mib in MAPPED.items() if mib >= SMALLEST_MIB}
    for name, mib in sorted(large.items(), key=lambda each: -each[1]):
        print(f"| {name} | {mib:.1f} |")
    print(f"| other libraries | {sum(MAPPED.values()) - sum(large.values()):.1f} |")
    print("\n| imported | MiB more |\n|---|---|")
    asked = json.dumps([modules for _, modules in LIBRARIES])
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, asked], capture_output=True, text=True, check=True
    )
    sizes = json.loads(done.stdout)
    print(f"| the interpreter itself | {sizes[0]:.1f} |")
    for (name, _), before, after in zip(LIBRARIES, sizes, sizes[1:], strict=False):
        print(f"| {name} | {after - before:.1f} |")


if __name__ == "__main__":
    main()
