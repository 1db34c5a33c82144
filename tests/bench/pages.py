"""What the pages that people look at cost: `python -m tests.bench.pages` prints size, time and the hour's memory.

The page of a node is drawn anew for each look; its hour is kept for all GPUs and jobs that it shows.
"""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import node_state
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.values.job import Job
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.shown_node import MOE, node_after
from tests.helpers.values import gpu

LOOKS = 25
HOUR = 3600.0


def larger(snapshot: Snapshot, gpus: int, jobs: int) -> Snapshot:
    """The node with more GPUs and jobs, all like those that it has."""
    views = [snapshot.gpus[place % 6]._replace(gpu=gpu(place)) for place in range(gpus)]
    shown = [
        replace(snapshot.jobs[place % 3], job=Job("slurm", str(place), f"job-{place}", "ada"))
        for place in range(jobs)
    ]
    return replace(snapshot, gpus=tuple(views), jobs=tuple(shown))


def hour_of(snapshot: Snapshot) -> History:
    """An hour in which every GPU was measured every 5 s."""
    history = History()
    for step in range(int(HOUR / 5)):
        moved = snapshot.at - HOUR + 5.0 * step
        gpus = tuple(
            view._replace(window=view.window and view.window._replace(start=moved - 5.0, end=moved))
            for view in snapshot.gpus
        )
        history.take(replace(snapshot, gpus=gpus, at=moved, unix=snapshot.unix - HOUR + 5.0 * step))
    return history


def milliseconds(draw: Callable[[], str]) -> float:
    """Median CPU time of one drawing."""
    spent = []
    for _ in range(LOOKS):
        began = time.process_time()
        draw()
        spent.append(1e3 * (time.process_time() - began))
    return median(spent)


def row(what: str, draw: Callable[[], str]) -> None:
    page = draw().encode()
    packed = len(gzip.compress(page, 6))
    print(f"| {what} | {len(page) / 1e3:.0f} | {packed / 1e3:.1f} | {milliseconds(draw):.1f} |")


def history_kib(snapshot: Snapshot) -> float:
    """What the hour of all GPUs and jobs of a node holds in memory."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = hour_of(snapshot)
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del kept
    return held / 1024


def main() -> None:
    node = node_after()
    print("| page | kB | packed | CPU ms |\n|---|---:|---:|---:|")
    for gpus, jobs in ((8, 20), (56, 20), (72, 20)):
        snapshot = larger(node.snapshot, gpus, jobs)
        history = hour_of(snapshot)
        row(
            f"`/`, {gpus} GPUs or instances, {jobs} jobs",
            lambda s=snapshot, h=history: node_page(node_state(s, h, "node-17", 1.4, Faults())),  # type: ignore[misc]
        )
    row("`/jobs/ID`", lambda: node.job_page(MOE.job_id))
    print("\n| GPUs | jobs | history, KiB |\n|---:|---:|---:|")
    for gpus, jobs in ((8, 20), (72, 20)):
        print(f"| {gpus} | {jobs} | {history_kib(larger(node.snapshot, gpus, jobs)):.0f} |")


if __name__ == "__main__":
    main()
