"""Measures what a window costs with DCGM, from 1 to 32 GPUs: `python -m tests.bench.dcgm`.

CPU time of one thread per GPU and window of the default settings: every GPU's five samples of fourteen
fields, read through our own binding on the DCGM double; one tick of the pipeline, one rendered page. The
double answers within this thread, so its own work is in the figure; a host engine's is in its process.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.serving.page import Page
from ofu_exporter.sources.dcgm import driver
from ofu_exporter.values.reading import Reading
from tests.bench.sampler import spent
from tests.doubles.dcgm import SCENARIO_VARIABLE, Scenario, load
from tests.helpers.values import FakeClock, health

EPOCH = 1.8e9
WINDOW_SECONDS = 5.0
WINDOWS = 100
COUNTS = (1, 2, 4, 8, 16, 32)


def measure(count: int, scenario: Scenario) -> tuple[float, float, float]:
    """Seconds per GPU and window: reading, tick, page."""
    clock = FakeClock(0.0)
    scenario.at(EPOCH)
    source = driver.Source(driver.Options(), clock, lambda: EPOCH + clock.now)
    (probe,) = source.open()
    page = Page(clock, process=False)
    page.render()
    state = State()
    reading = ticking = rendering = 0.0
    for window in range(WINDOWS + 2):
        clock.now += WINDOW_SECONDS
        scenario.at(EPOCH + clock.now)
        seconds, events = spent(probe.read)
        assert isinstance(events, list)
        tick = Tick(clock.now, WINDOW_SECONDS, probe.gpus(), events, health("dcgm"))
        if window < 2:
            state, _ = step(state, tick)
            continue
        assert sum(isinstance(event, Reading) for event in events) == count
        reading += seconds
        seconds, stepped = spent(lambda tick=tick, state=state: step(state, tick))
        assert isinstance(stepped, tuple)
        state, snapshot = stepped
        ticking += seconds
        rendering += spent(lambda snapshot=snapshot: page.publish(snapshot))[0]
    probe.close()
    source.close()
    per = count * WINDOWS
    return reading / per, ticking / per, rendering / per


def main() -> None:
    library = load()
    with tempfile.TemporaryDirectory() as folder:
        print("| GPUs | reads µs | tick µs | page µs | together µs per GPU and window |")
        print("|---|---|---|---|---|")
        for count in COUNTS:
            scenario = Scenario(Path(folder) / f"{count}.scenario", count)
            os.environ[SCENARIO_VARIABLE] = str(scenario.path)
            library.test_reset()
            for index in range(count):
                scenario.gpu(index, tensor=0.5, hmma=0.5, clock_mhz=[1320, 1352, 1384])
            costs = [seconds * 1e6 for seconds in measure(count, scenario)]
            row = " | ".join(f"{cost:.0f}" for cost in (*costs, sum(costs)))
            print(f"| {count} | {row} |", flush=True)


if __name__ == "__main__":
    main()
