"""What the rules cost Prometheus with 1,000 jobs and a day of history behind them.

    taskset -c 0,1 python -m tests.bench.rules

The history is made as text and imported by promtool: what a scrape a minute of the last hour brought, and what the
rules recorded in the last day. Then a real Prometheus goes on scraping a page of all nodes every 15 s, and evaluates
every group every 30 s, also those that are evaluated once an hour otherwise. Printed are Prometheus' own times, of
the quickest evaluation of several, so that what else runs on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.deploy.promtool import ALERTS, RULES, groups
from tests.helpers.agent import page_server, until
from tests.helpers.prometheus_server import Prometheus

SCRAPE = 15
GPUS_PER_NODE = 8
Sample = tuple[str, float]
"""A series and its value."""


class Fleet:
    """Jobs on nodes that are all alike, as a function of time. Every job has GPUs on two nodes."""

    def __init__(self, jobs: int, gpus_per_job: int, begin: float) -> None:
        self.jobs = range(jobs)
        self.gpus = range(jobs * gpus_per_job)
        self._per_job = gpus_per_job
        self._begin = begin

    def owner(self, gpu: int) -> int:
        """A job's GPUs are spread in halves, so that most jobs span two nodes."""
        return (gpu + GPUS_PER_NODE // 2) // self._per_job % len(self.jobs)

    def place(self, gpu: int) -> str:
        return f'instance="n{gpu // GPUS_PER_NODE}",gpu="{gpu % GPUS_PER_NODE}",uuid="GPU-{gpu}"'

    def parts(self) -> set[tuple[int, int]]:
        """Jobs and the nodes that they are on."""
        return {(self.owner(gpu), gpu // GPUS_PER_NODE) for gpu in self.gpus}

    def names(self, job: int) -> str:
        return (
            f'job_id="{job}",job_name="train-{job % 40}",user="user{job % 200}",'
            f'account="a{job % 20}",partition="p{job % 4}",scheduler="slurm"'
        )

    def scraped(self, at: float) -> Iterator[Sample]:
        """What the pages of all nodes hold at a time."""
        elapsed = at - self._begin
        for gpu in self.gpus:
            here = self.place(gpu)
            ofu = 0.3 + 0.2 * math.sin(gpu)
            described = f'model="NVIDIA H100 80GB HBM3",job_id="{self.owner(gpu)}"'
            yield f"ofu_gpu_info{{{here},{described}}}", 1
            yield f"ofu_gpu_up{{{here}}}", 1
            yield f"ofu_gpu_utilization_seconds_total{{{here}}}", ofu * elapsed
            yield f"ofu_gpu_observed_seconds_total{{{here}}}", elapsed
            yield f"ofu_gpu_tensor_active_ratio{{{here}}}", ofu * 1.3
            yield f"ofu_gpu_sm_clock_hertz{{{here}}}", 1.4e9
            yield f"ofu_gpu_sample_timestamp_seconds{{{here}}}", at - 2
        for job, node in self.parts():
            here = f'instance="n{node}",job_id="{job}"'
            yield f'ofu_job_info{{instance="n{node}",{self.names(job)}}}', 1
            for name, rate in (
                ("", 4.0),
                ("held_", 4.0),
                ("compared_", 4.0),
            ):
                yield f"ofu_job_{name}gpu_seconds_total{{{here}}}", rate * elapsed
            for name, rate in (
                ("utilization", 1.2),
                ("compared_utilization", 1.2),
                ("compared_mfu", 1.1),
            ):
                yield f"ofu_job_{name}_seconds_total{{{here}}}", rate * elapsed
            yield f'ofu_job_reports_total{{{here},outcome="accepted"}}', elapsed / 10
            yield f"ofu_job_report_timestamp_seconds{{{here}}}", at
            yield f'ofu_job_divergence_verdict{{{here},verdict="agree"}}', 1

    def recorded(self, at: float, before: float) -> Iterator[Sample]:
        """What the rules recorded at a time, of what other rules read so far back: `before` seconds."""
        for job in self.jobs:
            names = self.names(job)
            yield f"job:ofu_job_utilization_seconds:rate5m{{{names}}}", 1.2 + 0.1 * math.sin(at)
            yield f"job:ofu_job_gpu_seconds:rate5m{{{names}}}", 4
            if before <= 3600:
                yield f"job:ofu_job_info:topk1{{{names}}}", 1
        for gpu in self.gpus:
            here = f'{self.place(gpu)},job_id="{self.owner(gpu)}"'
            if before <= 3600:
                yield f"job_gpu:ofu:ratio_rate5m{{{here}}}", 0.3
                yield f"job_gpu:ofu_gpu_sm_clock_hertz:avg15m{{{here}}}", 1.4e9
                yield f"job_gpu:ofu_gpu_tensor_active:avg15m{{{here}}}", 0.5
            if at % 3600 == 0:
                yield f"job_gpu:ofu_gpu_sm_clock_hertz:avg30m{{{here}}}", 1.4e9
                yield f"job_gpu:ofu_gpu_tensor_active:avg30m{{{here}}}", 0.5


def imported(fleet: Fleet, hours: float, until_: float, folder: Path) -> None:
    """Make blocks of the history: hour by hour, because a day of text is large."""
    text = folder / "history.txt"
    command = ("promtool", "tsdb", "create-blocks-from", "openmetrics")
    for hour in range(math.ceil(hours), 0, -1):
        begin = until_ - hour * 3600
        with text.open("w") as file:
            for minute in range(60):
                at = begin + 60 * minute
                _write(file.write, fleet.recorded(at, until_ - at), at)
                if hour == 1:
                    _write(file.write, fleet.scraped(at), at)
            file.write("# EOF\n")
        subprocess.run([*command, str(text), str(folder / "data")], check=True, capture_output=True)
    text.unlink()


def _write(write: Any, samples: Iterator[Sample], at: float) -> None:
    write("".join(f"{series} {value:.6g} {at:.0f}\n" for series, value in samples))


def every_half_minute(folder: Path) -> list[str]:
    copies = []
    for path in (*RULES, *ALERTS):
        copy = folder / f"{path.parent.name}-{path.name}"
        copy.write_text(
            json.dumps({"groups": [{**group, "interval": "30s"} for group in groups(path)]})
        )
        copies.append(str(copy))
    return copies


def evaluated(port: int) -> list[Any]:
    """Every group with its rules, and how long they took the last time."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules", timeout=30) as answer:
        found: list[Any] = json.load(answer)["data"]["groups"]
        return found


def measure(options: argparse.Namespace, folder: Path) -> None:
    now = time.time() // 60 * 60
    fleet = Fleet(options.jobs, options.gpus_per_job, now - 86400)
    imported(fleet, options.hours, now, folder)

    def page() -> str:
        return "".join(f"{series} {value}\n" for series, value in fleet.scraped(time.time()))

    with page_server(page) as url:
        scrape = {
            "job_name": "ofu",
            "honor_labels": True,
            "scrape_interval": f"{SCRAPE}s",
            "static_configs": [{"targets": [url.removeprefix("http://").removesuffix("/metrics")]}],
        }
        rules = every_half_minute(folder)
        prometheus = Prometheus(folder, {}, scrape_configs=[scrape], rule_files=rules)
        try:
            until(prometheus.ready, seconds=120)
            report(quickest(prometheus.port, options.warm))
        finally:
            prometheus.stop()


def quickest(port: int, seconds: float) -> list[Any]:
    """Every group as it was evaluated at its quickest, in the second half of the time: with all of its data."""
    begin = time.time()
    best: dict[str, Any] = {}

    def watched() -> bool:
        elapsed = time.time() - begin
        for group in evaluated(port) if elapsed > seconds / 2 else []:
            known = best.get(group["file"])
            if known is None or group["evaluationTime"] < known["evaluationTime"]:
                best[group["file"]] = group
        threading.Event().wait(2.0)  # the question costs Prometheus something too
        return elapsed > seconds

    until(watched, seconds=seconds + 120)
    return list(best.values())


def report(found: list[Any]) -> None:
    failed = [rule for group in found for rule in group["rules"] if rule["health"] != "ok"]
    assert not failed, failed
    print("| group | rules | evaluation s | slowest rule | s |\n|---|---|---|---|---|")
    alerts = [group for group in found if group["file"].rpartition("/")[2].startswith("alerts-")]
    for group in found:
        if group not in alerts:
            slowest = max(group["rules"], key=lambda rule: float(rule["evaluationTime"]))
            print(
                f"| {group['name']} | {len(group['rules'])} | {group['evaluationTime']:.3f} "
                f"| `{slowest['name']}` | {slowest['evaluationTime']:.3f} |"
            )
    together = sum(group["evaluationTime"] for group in alerts)
    print(f"| all alerts | {len(alerts)} | {together:.3f} | | |")
    print(f"| together | | {sum(group['evaluationTime'] for group in found):.3f} | | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--gpus-per-job", type=int, default=4)
    parser.add_argument("--hours", type=float, default=24.5, help="of history")
    parser.add_argument("--warm", type=float, default=600.0, help="seconds that it's watched")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
