"""Measures one evaluation of every configuration under tests: `python -m tests.bench.flops`.

An evaluation is reading the configuration (a mapping, not its file), counting a step in the convention `model`, and
MFU from a throughput. CPU time of one thread, the median of some runs.
"""

from __future__ import annotations

import statistics
import time

from ofu_exporter import flops
from tests.flops.counting import NAMES, config
from tests.helpers.values import H100

RUNS = 300


def evaluate(values: dict[str, object]) -> float:
    """MFU of a job with equal sequences."""
    model = flops.read(values)
    counted = flops.count(model, flops.fixed(512, **dict.fromkeys(model.streams, 4096)))
    pace = flops.Pace(step_seconds=10.0)
    job = {"gpu": H100, "number": 256, "precision": {"bf16": 1.0}}
    return flops.utilization(counted, pace, **job).mfu  # type: ignore[arg-type]


def median_ms(values: dict[str, object]) -> float:
    spent = []
    for _ in range(RUNS):
        began = time.thread_time()
        evaluate(values)
        spent.append(time.thread_time() - began)
    return 1e3 * statistics.median(spent)


def main() -> None:
    print("| configuration | ms per evaluation |")
    print("|---|---|")
    for name in NAMES:
        print(f"| {name} | {median_ms(config(name)):.2f} |", flush=True)


if __name__ == "__main__":
    main()
