"""How long the panels of the dashboards take over six hours: `taskset -c 0,1 python -m tests.bench.panels`.

1,000 jobs on 8,000 GPUs: what the rules recorded in six hours is made as text and imported by promtool, and a real
Prometheus answers every query of every panel that reads it, as Grafana asks it. Printed is Prometheus' own time, of the
quickest of several answers, by panel.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.grafana.generate import FOLDER
from ofu_exporter.fleet.history.progress_sums import NoProgress
from tests.bench.rules import CREATE_BLOCKS, Fleet, Sample, write
from tests.deploy.promtool import selected
from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus

HOURS = 6
STEP = 60
"""The panels' shortest step, which Grafana asks for on 360 pixels or more."""
CHOICES = {
    "$__rate_interval": "1m",
    "$__range": f"{HOURS}h",
    "$__interval": f"{STEP}s",
    "$cluster": ".*",
    "$user": ".*",
    "$job": "7",
    "$node": "n7",
    "$gpu": ".*",
}
TIMES = 5
REASONS = tuple(f',reason="{each.value}"' for each in NoProgress)
BOARDS = ("fleet", "reports", "job")
"""What is read from the rules; the board of a node reads the raw series of that node alone."""


def queries(board: str) -> Iterator[tuple[str, str, bool]]:
    """The panel, the expression, and whether it is asked for one instant."""
    for panel in json.loads((FOLDER / f"{board}.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in CHOICES.items():
                expression = expression.replace(name, value)
            yield panel["title"], expression, bool(target.get("instant"))


def recorded(fleet: Fleet, names: list[str], at: float) -> Iterator[Sample]:
    """Every recorded series that the panels read, of every job, owner and model there is."""
    for name in names:
        hourly = name.endswith(("increase1h", ":sum1h"))
        if not hourly or at % 3600 == 0:
            value = 0.4 + 0.1 * math.sin(at / 600)
            of_reasons = REASONS if "lost_progress_gpu_hours" in name else ("",)
            for reason in of_reasons:
                for labels in fleet.entities(name):
                    yield f"{name}{{{labels}{reason}}}", value


def imported(fleet: Fleet, until_: float, folder: Path) -> None:
    names = {name for board in BOARDS for _, expr, _ in queries(board) for name in selected(expr)}
    kept = sorted(name for name in names if ":" in name)
    text = folder / "history.txt"
    for hour in range(HOURS, 0, -1):
        with text.open("w") as file:
            for minute in range(60):
                at = until_ - hour * 3600 + 60 * minute
                write(file.write, recorded(fleet, kept, at), at)
            file.write("# EOF\n")
        subprocess.run(
            [*CREATE_BLOCKS, str(text), str(folder / "data")], check=True, capture_output=True
        )
    text.unlink()


def seconds(port: int, expression: str, at: float, instant: bool) -> float:
    """Prometheus' own time for an answer."""
    span = {"time": at} if instant else {"start": at - HOURS * 3600, "end": at, "step": STEP}
    asked = urllib.parse.urlencode({"query": expression, "stats": "all", **span}).encode()
    path = "query" if instant else "query_range"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", asked, 120) as answer:
        timings: dict[str, Any] = json.load(answer)["data"]["stats"]["timings"]
        return float(timings["execTotalTime"])


def measure(fleet: Fleet, folder: Path) -> None:
    now = time.time() // 60 * 60
    imported(fleet, now, folder)
    prometheus = Prometheus(folder, {})
    try:
        until(prometheus.ready, seconds=120)
        print("| dashboard | panels | slowest panel | s |\n|---|---|---|---|")
        for board in BOARDS:
            taken: dict[str, float] = defaultdict(float)
            for panel, expression, instant in queries(board):
                taken[panel] += min(
                    seconds(prometheus.port, expression, now - 60, instant) for _ in range(TIMES)
                )
            slowest = max(taken, key=lambda panel: taken[panel])
            print(f"| {board} | {len(taken)} | {slowest} | {taken[slowest]:.3f} |")
    finally:
        prometheus.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--gpus-per-job", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Fleet(given.jobs, given.gpus_per_job, time.time() - 86400), Path(folder))


if __name__ == "__main__":
    main()
