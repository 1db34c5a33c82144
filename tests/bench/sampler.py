"""Measures what a window costs per GPU, from 1 to 72 GPUs: `python -m tests.bench.sampler`.

CPU time of one thread per GPU and window of the default settings: ten clock reads and one counter
read through pynvml on the NVML double, one tick of the pipeline, one rendered page. The double
answers at once, so this is our own cost; what a real driver's calls cost comes on top.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pynvml

from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.serving.page import Page
from ofu_exporter.sources import Probe
from ofu_exporter.sources.nvml import driver
from ofu_exporter.values.reading import Fault, Reading
from tests.doubles.nvml import SCENARIO_VARIABLE, Scenario, load
from tests.helpers.values import FakeClock, health

READS_PER_WINDOW, STEP_SECONDS = 10, 0.5
WINDOWS = 200
COUNTS = (1, 2, 4, 8, 16, 36, 72)


def spent(call: object) -> tuple[float, object]:
    assert callable(call)
    began = time.thread_time()
    result = call()
    return time.thread_time() - began, result


def read_all(probes: Sequence[Probe], clock: FakeClock) -> list[Reading | Fault]:
    """One window: its clock reads are half a second apart, as in an agent."""
    for _ in range(READS_PER_WINDOW - 1):
        clock.now += STEP_SECONDS
        for probe in probes:
            probe.poll()
    clock.now += STEP_SECONDS
    return [event for probe in probes for event in probe.read()]


def measure(count: int, scenario: Scenario) -> tuple[float, float, float]:
    """Seconds per GPU and window: reading, tick, page."""
    clock = FakeClock(0.0)
    scenario.at(0.0)
    source = driver.Source(driver.Options(), clock)
    probes = source.open()
    read_all(probes, clock)
    page = Page(clock, process=False)
    page.render()
    state = State()
    reading = ticking = rendering = 0.0
    for window in range(1, WINDOWS + 1):
        scenario.at(5.0 * window)
        pynvml.nvmlDeviceGetCount()  # the double reads its scenario now, in no call that is measured
        seconds, events = spent(lambda: read_all(probes, clock))
        assert isinstance(events, list)
        assert len(events) == count
        reading += seconds
        tick = Tick(clock.now, 5.0, [event.gpu for event in events], events, health())
        seconds, stepped = spent(lambda tick=tick, state=state: step(state, tick))
        assert isinstance(stepped, tuple)
        state, snapshot = stepped
        ticking += seconds
        rendering += spent(lambda snapshot=snapshot: page.publish(snapshot))[0]
    for probe in probes:
        probe.close()
    source.close()
    per = count * WINDOWS
    return reading / per, ticking / per, rendering / per


def main() -> None:
    load()
    with tempfile.TemporaryDirectory() as folder:
        print("| GPUs | reads µs | tick µs | page µs | together µs per GPU and window |")
        print("|---|---|---|---|---|")
        for count in COUNTS:
            scenario = Scenario(Path(folder) / f"{count}.scenario", count)
            os.environ[SCENARIO_VARIABLE] = str(scenario.path)
            for index in range(count):
                scenario.gpu(index, uuid=f"GPU-{index}", tensor=0.5, clock_mhz=[1320, 1352, 1384])
            costs = [seconds * 1e6 for seconds in measure(count, scenario)]
            row = " | ".join(f"{cost:.0f}" for cost in (*costs, sum(costs)))
            print(f"| {count} | {row} |", flush=True)


if __name__ == "__main__":
    main()
