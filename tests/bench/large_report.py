"""Time and memory of a report over 10,000 GPUs, 30 days and 20,000 jobs: `python -m tests.bench.large_report`.

A real VictoriaMetrics has what the hourly rules would have kept, one sample in five of the series of each minute, and
a page of every agent's build information. What the report adds up is held against the jobs as made.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.values.losses import Loss
from tests.bench.process import cpu_seconds
from tests.helpers.agent import until
from tests.helpers.prometheus_server import free_port

HOUR, DAY, LOOK = 3600, 24, 300
"""An hour in seconds, a day in hours, and the seconds between two samples of the series of each minute."""
END = (int(time.time()) // HOUR - 1) * HOUR
"""When the time ends: what is younger a server may not show yet."""
MODELS = ("H100", "H200")
NOT_SPLIT = {Loss.CLOCK: 0.5, Loss.NO_TENSOR: 0.3, Loss.EMPTY_SMS: 0.15, Loss.IDLE: 0.05}
"""How what is lost is divided among the parts."""
Labels = dict[str, str]
AT_ONCE = 16 << 20
"""Bytes that are imported at once."""


class Job(NamedTuple):
    """A job, from an hour of the time on."""

    number: int
    first: int
    hours: int
    gpus: float

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
        return {"cluster": "c", "job_id": str(1_000_000 + n), **named, **where}

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

    def hourly(self) -> Iterator[tuple[str, Labels, float]]:
        """The series of each hour."""
        lost = self.observed - self.utilized
        for name, value in (
            ("held_gpu_hours", self.held),
            ("observed_gpu_hours", self.observed),
            ("utilized_gpu_hours", self.utilized),
            ("compared_gpu_hours", self.observed),
            ("compared_mfu_gpu_hours", 0.9 * self.utilized),
            ("compared_utilized_gpu_hours", self.utilized),
            ("gained_gpu_hours", 0.0),
            ("energy_joules", 2.2e6 * self.held),
        ):
            yield f"job:{name}:increase1h", {}, value
        for part, share in NOT_SPLIT.items():
            yield "job:lost_gpu_hours:increase1h", {"part": part.value}, share * lost
        yield "job_model:ofu_gpu_info:avg1h", {"model": MODELS[self.number % 2]}, self.gpus

    def each_minute(self) -> Iterator[tuple[str, Labels, float]]:
        """The series of each minute that reports look into."""
        yield "job:ofu_job_held_gpu_seconds:rate5m", {}, self.held
        yield "job:ofu_job_gpu_seconds:rate5m", {}, self.observed
        yield "job:ofu:ratio_rate5m", {}, 0.0 if self.number % 10 == 0 else 0.4
        yield "job:ofu_job_divergence_verdict:sum", {"verdict": "consistent"}, self.gpus / 8
        yield "job:ofu_job_divergence_cause:sum", {"cause": "none"}, self.gpus / 8
        if self.number % 10 == 5:
            yield "job:idle_gpus:count1h", {}, 1.0


def jobs_of(gpus: int, days: int, count: int) -> list[Job]:
    """Jobs of 16 GPUs, one after the other in every 16, which hold all GPUs all the time."""
    slots, hours = max(1, gpus // 16), DAY * days
    each = math.ceil(count / slots)
    spans = [*itertools.pairwise(hours * n // each for n in range(each + 1))]
    return [
        Job(number, first, last - first, gpus / slots)
        for number, (_, (first, last)) in enumerate(itertools.product(range(slots), spans))
    ]


def of_fleet(gpus: int) -> Iterator[tuple[str, Labels, float, int]]:
    """The series that are of no job, each with its value and the seconds between two samples."""
    half = gpus / len(MODELS)
    for model in MODELS:
        labels = {"cluster": "c", "model": model}
        yield "model:observed_gpu_hours:increase1h", labels, 0.99 * half, HOUR
        yield "model:utilized_gpu_hours:increase1h", labels, 0.4 * half, HOUR
        yield "model:ofu_gpu_share:sum", labels, half, LOOK
        for name in ("observed", "utilized", "idle"):
            yield f"model:jobless_{name}_gpus:avg1h", labels, 0.0, HOUR
    yield "cluster:ofu_exporter_simulated:max", {"cluster": "c"}, 0.0, LOOK
    yield "fleet:ofu_target:ratio", {}, 0.4, LOOK
    for node in range(gpus // 8):
        labels = {"cluster": "c", "instance": f"n{node}:9846"}
        yield "ofu_exporter_build_info", {**labels, "version": "1"}, 1.0, LOOK
        yield "node:ofu_gpu_info:topk1", {**labels, "model": MODELS[node % 2]}, 1.0, LOOK


def lines(jobs: list[Job], gpus: int, days: int) -> Iterator[bytes]:
    """Everything as VictoriaMetrics imports it: a series in a line."""
    begin = END - HOUR * DAY * days
    times = {step: [b"%d000" % at for at in range(begin, END + 1, step)] for step in (HOUR, LOOK)}
    for job in jobs:
        for step, series in ((HOUR, job.hourly()), (LOOK, job.each_minute())):
            looks = HOUR // step
            there = times[step][looks * job.first + 1 : looks * (job.first + job.hours) + 1]
            for name, more, value in series:
                yield line(name, {**job.labels, **more}, value, there)
    for name, labels, value, step in of_fleet(gpus):
        yield line(
            name, labels, value, times[step][HOUR // step :] if step == HOUR else times[step]
        )


def line(name: str, labels: Labels, value: float, times: list[bytes]) -> bytes:
    values = b",".join([repr(value).encode()] * len(times))
    metric = json.dumps({"__name__": name, **labels}).encode()
    return b'{"metric":%b,"values":[%b],"timestamps":[%b]}\n' % (metric, values, b",".join(times))


@contextmanager
def served(folder: Path, content: Iterable[bytes]) -> Iterator[tuple[str, int]]:
    """The URL and the process of a server that has the lines."""
    address = f"127.0.0.1:{free_port()}"
    flags = [f"-storageDataPath={folder}", f"-httpListenAddr={address}", "-retentionPeriod=1y"]
    server = subprocess.Popen(["victoria-metrics", *flags], stderr=subprocess.DEVNULL)
    try:
        until(lambda: answers(f"http://{address}/health"))
        waiting, size = [], 0
        for one in content:
            waiting.append(one)
            size += len(one)
            if size > AT_ONCE:
                send(f"http://{address}/api/v1/import", b"".join(waiting))
                waiting, size = [], 0
        send(f"http://{address}/api/v1/import", b"".join(waiting))
        send(f"http://{address}/internal/force_flush", b"")
        yield f"http://{address}", server.pid
    finally:
        server.terminate()
        server.wait(60)


def answers(url: str) -> bool:
    try:
        send(url, None)
    except OSError:
        return False
    return True


def send(url: str, body: bytes | None) -> None:
    urllib.request.urlopen(url, body, timeout=300).close()


class Cost(NamedTuple):
    """What a run of the command took, and what it took of the server."""

    cpu: float
    server_cpu: float
    wall: float
    mib: float


def run(server: tuple[str, int], days: int, flags: Sequence[str], output: Path) -> Cost:
    """The command's own cost. Raises CalledProcessError where it fails."""
    url, process = server
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(END))
    command = [sys.executable, "-m", "ofu_exporter", "fleet", "report", "--prometheus", url]
    command += ["--since", f"{days}d", "--until", until, *flags]
    before, began = cpu_seconds(process), time.monotonic()
    running = subprocess.Popen([*command, "--output", str(output)])
    _, status, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    wall = time.monotonic() - began
    of_server = cpu_seconds(process) - before
    return Cost(usage.ru_utime + usage.ru_stime, of_server, wall, usage.ru_maxrss / 1024)


def hold_to_truth(report: FleetReport, jobs: list[Job]) -> None:
    """Raises AssertionError where the report's sums are not those of the jobs."""
    assert len(report.jobs) == len(jobs)
    for name, sum_of_report in (
        ("held", report.total.held_gpu_hours),
        ("observed", report.total.observed_gpu_hours),
        ("utilized", report.total.effective_gpu_hours),
    ):
        truth = math.fsum(job.hours * getattr(job, name) for job in jobs)
        assert math.isclose(sum_of_report, truth, rel_tol=1e-9), (name, sum_of_report, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--keep", action="store_true", help="Serve on until a line comes in.")
    flags = parser.parse_args()
    jobs = jobs_of(flags.gpus, flags.days, flags.jobs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(folder / "data", lines(jobs, flags.gpus, flags.days)) as server:
            print("| format | changes | CPU s | server's CPU s | seconds | MiB | MB |")
            print("|---|---|---:|---:|---:|---:|---:|")
            for changes, style in itertools.product(("no", "found"), ("json", "text", "html")):
                output = folder / style
                unwanted = ["--no-changes"] if changes == "no" else []
                cost = run(server, flags.days, ["--format", style, *unwanted], output)
                size = output.stat().st_size / 1e6
                print(
                    f"| {style} | {changes} | {cost.cpu:.1f} | {cost.server_cpu:.1f} | {cost.wall:.1f} "
                    f"| {cost.mib:.0f} | {size:.1f} |",
                    flush=True,
                )
            hold_to_truth(FleetReport.model_validate_json((folder / "json").read_text()), jobs)
            if flags.keep:
                print(server[0], flush=True)
                input()


if __name__ == "__main__":
    main()
