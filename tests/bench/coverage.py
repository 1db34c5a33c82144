"""Ten minutes of a fault among eight GPUs, and the share of time in which each was measured.

`python -m tests.bench.coverage [WINDOWS]`: the real sampler with its threads on the stand-in for
NVML. 120 windows, of 0.1 s each and not of 5 s, stand for ten minutes. Coverage is the observed time
over the time from the first window's begin to the last one's end.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.sampler import Sampler, SamplingPlan
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.sources.nvml import driver
from ofu_exporter.values.snapshot import Snapshot
from tests.doubles.nvml import SCENARIO_VARIABLE, Scenario, load

GPUS, BROKEN = 8, 3
WINDOW = 0.1

BREAK: dict[str, Callable[[Scenario], None]] = {
    "none": lambda _: None,
    "lost": lambda scenario: scenario.gpu(BROKEN, lost=1),
    "hung": lambda scenario: scenario.gpu(BROKEN, hang_seconds=3600),
    "blank": lambda scenario: scenario.error("nvmlGpmMetricsGet", 27, gpu=BROKEN),
}


class Watched:
    """What has been published."""

    def __init__(self) -> None:
        self.windows = [0] * GPUS
        self._began = [0.0] * GPUS
        self._ended = [0.0] * GPUS
        self._observed = [0.0] * GPUS
        self.enough = threading.Event()
        self.wanted = sys.maxsize

    def publish(self, snapshot: Snapshot) -> None:
        for view in snapshot.gpus:
            number = int(view.gpu.index)
            if view.window is None or view.window.end <= self._ended[number]:
                continue
            if not self.windows[number]:
                self._began[number] = view.window.end - view.observed_seconds
            self.windows[number] += 1
            self._ended[number] = view.window.end
            self._observed[number] = view.observed_seconds
        if min(count for n, count in enumerate(self.windows) if n != BROKEN) >= self.wanted:
            self.enough.set()

    def coverage(self, gpu: int) -> float:
        """Of the time from its own first window to its own last."""
        return self._observed[gpu] / (self._ended[gpu] - self._began[gpu])

    def share(self, gpu: int) -> float:
        """Of the time in which any GPU was measured."""
        return self._observed[gpu] / (max(self._ended) - min(self._began))


def observe(scenario: Scenario, kind: str, windows: int) -> Watched:
    """Measure some windows, break one GPU, and measure as many windows of the others."""
    watched = Watched()
    pace = SamplingPace(WINDOW, WINDOW / 2)
    source = SourceBuilder("nvml", lambda: driver.Source(driver.Options()))
    sampler = Sampler(SamplingPlan([source], pace), watched.publish, time.monotonic)
    watched.wanted = 5
    sampler.start()
    watched.enough.wait()
    BREAK[kind](scenario)
    watched.enough.clear()
    watched.wanted = 5 + windows
    watched.enough.wait()
    scenario.gpu(BROKEN, lost=0, hang_seconds=0)
    sampler.stop(5.0)
    return watched


def main(windows: int = 120) -> None:
    library = load()
    print("| fault of GPU 3 | coverage of GPU " + " | ".join(str(n) for n in range(GPUS)) + " |")
    print("|---" * (GPUS + 1) + "|")
    for kind in BREAK:
        with tempfile.TemporaryDirectory() as folder:
            library.test_reset()
            scenario = Scenario(Path(folder) / "scenario", GPUS)
            os.environ[SCENARIO_VARIABLE] = str(scenario.path)
            watched = observe(scenario, kind, windows)
        shares = [watched.coverage(n) for n in range(GPUS)]
        if kind != "none":
            shares[BROKEN] = watched.share(BROKEN)
        print(f"| {kind} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
