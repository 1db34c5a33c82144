"""CPU time and memory of a report over 10,000 GPUs, 30 days and 20,000 jobs: `python -m tests.bench.large_report`.

The server is a process of its own that only looks answers up, so that what is measured is the command. The answers are
those of the hourly rules, with the labels that these give. What the report adds up is held against the jobs as made.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs

from ofu_exporter.fleet.reports import queries
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.values.losses import Loss

HOUR, DAY = 3600, 24
"""An hour in seconds and a day in hours."""
END = int(time.time()) // HOUR * HOUR
"""The hour that the time ends with."""
MODELS = ("H100", "H200")
PARTS = (Loss.CLOCK, Loss.NO_TENSOR, Loss.EMPTY_SMS, Loss.IDLE)
NOT_SPLIT = (0.5, 0.3, 0.15, 0.05)
"""How what is lost is divided among the parts."""
TARGET = 0.4
Labels = dict[str, str]
Answer = Callable[["Job"], Iterable[tuple[Labels, float]]]


class Job(NamedTuple):
    """A job, from an hour of the time on."""

    number: int
    first: int
    hours: int
    gpus: float

    @property
    def key(self) -> Labels:
        return {"cluster": "c", "job_id": str(1_000_000 + self.number)}

    @property
    def labels(self) -> Labels:
        """What the hourly rules give to a job's series."""
        n = self.number
        named = {
            "job_name": f"train-{n % 900}",
            "user": f"user{n % 300}",
            "account": f"lab{n % 40}",
        }
        where = {"partition": "batch", "scheduler": "slurm", "framework": "transformers"}
        return {**self.key, **named, **where}

    @property
    def model(self) -> str:
        return MODELS[self.number % len(MODELS)]

    @property
    def held(self) -> float:
        """GPU-hours in an hour, not whole as no increase of a counter is."""
        return self.gpus * (0.998 + 1e-9 * self.number)

    @property
    def observed(self) -> float:
        return 0.99 * self.held

    @property
    def utilized(self) -> float:
        return self.observed * (0.2 + 0.001 * (self.number % 401))

    @property
    def lost(self) -> float:
        return self.observed - self.utilized


def jobs_of(gpus: int, days: int, count: int) -> list[Job]:
    """Jobs of 16 GPUs, one after the other in every 16, which hold all GPUs all the time."""
    slots, hours = max(1, gpus // 16), DAY * days
    each = math.ceil(count / slots)
    spans = [*itertools.pairwise(hours * n // each for n in range(each + 1))]
    return [
        Job(number, first, last - first, gpus / slots)
        for number, (_, (first, last)) in enumerate(itertools.product(range(slots), spans))
    ]


def _hours_of(name: str) -> Answer:
    """GPU-hours of a job by the name of the quantity."""
    values: dict[str, Callable[[Job], float]] = {
        "held": lambda job: job.held,
        "observed": lambda job: job.observed,
        "utilized": lambda job: job.utilized,
        "compared": lambda job: job.observed,
        "compared_mfu": lambda job: 0.9 * job.utilized,
        "compared_utilized": lambda job: job.utilized,
    }
    value = values[name]
    return lambda job: [(job.labels, value(job))]


OF_JOBS: dict[str, Answer] = {
    **{each.recorded: _hours_of(each.name) for each in queries.JOB_HOURS},
    queries.LOST.recorded: lambda job: [
        ({**job.key, "part": part.value}, share * job.lost)
        for part, share in zip(PARTS, NOT_SPLIT, strict=True)
    ],
    queries.GAINED.recorded: lambda job: [(job.key, 0.0)],
    queries.ENERGY.recorded: lambda job: [(job.key, 2.2e6 * job.held)],
    queries.SIZE.recorded: lambda job: [(job.key, job.gpus * 0.9998)],
    queries.VERDICT.recorded: lambda job: [({**job.key, "verdict": "consistent"}, job.gpus / 8)],
    queries.CAUSE.recorded: lambda job: [({**job.key, "cause": "none"}, job.gpus / 8)],
    queries.IDLE.recorded: lambda job: [(job.key, 0.5)] if job.number % 10 == 0 else [],
    queries.IDLE_GPUS: lambda job: [(job.key, 1.0)] if job.number % 10 == 5 else [],
    queries.JOB_MODELS.recorded: lambda job: [({**job.key, "model": job.model}, job.gpus)],
}


def of_fleet(gpus: int) -> dict[str, tuple[list[Labels], float]]:
    """The answers that are of no job: their labels and the value in every hour."""
    cluster, models = [{"cluster": "c"}], [{"cluster": "c", "model": each} for each in MODELS]
    half = gpus / len(MODELS)
    observed, utilized = queries.MODEL_HOURS
    return {
        observed.recorded: (models, 0.99 * half),
        utilized.recorded: (models, 0.4 * half),
        queries.AGENTS: (cluster, gpus / 8),
        queries.INSTALLED.recorded: (models, half),
        queries.COVERED.recorded: (cluster, 1.0),
        **{each.recorded: (models, 0.0) for each in queries.JOBLESS},
        queries.SIMULATED.recorded: ([{"cluster": "c", "simulated": "0"}], gpus / 8),
        queries.ABSENT: ([], 0.0),
        queries.TARGET: ([{}], TARGET),
    }


def _written(kind: str, result: Sequence[object]) -> bytes:
    data = {"resultType": kind, "result": result}
    return json.dumps({"status": "success", "data": data}).encode()


class Answers:
    """Everything that a report asks for, as JSON."""

    def __init__(self, jobs: list[Job], gpus: int, days: int) -> None:
        self._jobs = jobs
        self._fleet = of_fleet(gpus)
        self._begin = END - HOUR * DAY * days

    def of(self, form: dict[str, str]) -> bytes:
        """The answer to `query` and `query_range`. Raises KeyError for what is not known."""
        if form["query"] == "time()":
            return _written("scalar", [END, str(END)])
        expression, first, last, is_one = self._asked(form)
        rows = [
            {"metric": labels, **self._values(hours, value, is_one)}
            for labels, hours, value in self._rows(expression, first, last)
        ]
        return _written("vector" if is_one else "matrix", rows)

    def _asked(self, form: dict[str, str]) -> tuple[str, int, int, bool]:
        """The expression, its first hour and the one after its last, and whether one value is wanted."""
        if "start" in form:
            ends = (self._hour(form["start"]), self._hour(form["end"]) + 1)
            return form["query"], *ends, False
        last = self._hour(form.get("time", END)) + 1
        if ranged := re.fullmatch(r"([\w:]+)\[(\d+)ms]", form["query"]):
            return ranged[1], last - int(ranged[2]) // 1000 // HOUR, last, False
        return form["query"], last - 1, last, True

    def _hour(self, time: str | float) -> int:
        """The number of the hour that ends then."""
        return round((float(time) - self._begin) / HOUR) - 1

    def _rows(
        self, expression: str, first: int, last: int
    ) -> Iterator[tuple[Labels, range, float]]:
        if expression not in OF_JOBS:
            labels, value = self._fleet[expression]
            yield from ((each, range(first, last), value) for each in labels)
            return
        for job in self._jobs:
            hours = range(max(first, job.first), min(last, job.first + job.hours))
            if hours:
                yield from ((labels, hours, value) for labels, value in OF_JOBS[expression](job))

    def _values(self, hours: range, value: float, is_one: bool) -> dict[str, object]:
        values = [(self._begin + HOUR * (hour + 1), repr(value)) for hour in hours]
        return {"value": values[-1]} if is_one else {"values": values}


def serve(answers: Answers, port: Connection) -> None:
    """Answer until killed; the port goes into the pipe."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            body = answers.of({name: values[0] for name, values in form.items()})
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_port)
    server.serve_forever()


@contextmanager
def served(answers: Answers) -> Iterator[str]:
    """The URL of a server in another process."""
    here, there = Pipe()
    server = Process(target=serve, args=(answers, there), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        server.kill()
        server.join()


class Cost(NamedTuple):
    """What a run of the command took."""

    cpu: float
    wall: float
    mib: float


def run(url: str, days: int, style: str, output: Path) -> Cost:
    """The command's own cost. Raises CalledProcessError where it fails."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(END))
    command = [sys.executable, "-m", "ofu_exporter", "fleet", "report", "--prometheus", url]
    command += ["--since", f"{days}d", "--until", until, "--format", style]
    began = time.monotonic()
    running = subprocess.Popen([*command, "--output", str(output)])
    _, status, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    wall = time.monotonic() - began
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def hold_to_truth(report: FleetReport, jobs: list[Job]) -> None:
    """Raises AssertionError where the report's sums are not those of the jobs."""
    assert len(report.jobs) == len(jobs)
    for name, found in (
        ("held", report.total.held_gpu_hours),
        ("observed", report.total.observed_gpu_hours),
        ("utilized", report.total.effective_gpu_hours),
    ):
        truth = math.fsum(job.hours * getattr(job, name) for job in jobs)
        assert math.isclose(found, truth, rel_tol=1e-9), (name, found, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=20_000)
    flags = parser.parse_args()
    jobs = jobs_of(flags.gpus, flags.days, flags.jobs)
    print("| format | CPU s | seconds | MiB | MB |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        answers = Answers(jobs, flags.gpus, flags.days)
        with served(answers) as url:
            for style in ("json", "text", "html"):
                output = Path(folder) / style
                cost = run(url, flags.days, style, output)
                size = output.stat().st_size / 1e6
                print(
                    f"| {style} | {cost.cpu:.1f} | {cost.wall:.0f} | {cost.mib:.0f} | {size:.1f} |"
                )
            hold_to_truth(
                FleetReport.model_validate_json((Path(folder) / "json").read_text()), jobs
            )


if __name__ == "__main__":
    main()
