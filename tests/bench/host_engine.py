"""How near the `dcgm` source comes to the truth through a real DCGM host engine, without a GPU.

    python -m tests.bench.host_engine FOLDER [--seconds 300] [--interval 5] [--driver 595.45] [--client 1001:0.1]

tests/measured/host-engine.md says how. Each row is a load: bias over all windows, mean stated error and largest error,
in points; the share of windows with the truth within two stated errors; the shortest window as a share of the interval;
the share of windows by cycle counters.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import multiprocessing
import os
import signal
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.sampler import Sampler, SamplingPlan
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.sources.dcgm import driver
from ofu_exporter.sources.dcgm.host_engine import EMBEDDED, HostEngine
from ofu_exporter.sources.dcgm.library import GPU, Entity, Library
from ofu_exporter.values.reading import Window
from ofu_exporter.values.snapshot import Snapshot
from tests.doubles import native, nvml
from tests.helpers.agent import until
from tests.simulator.grid import ROUNDING, SETTLED_SECONDS
from tests.simulator.loads import LOADS, Load

NVML_SOURCE = nvml.SOURCE.with_name("nvml_of_engine.c")
LIBRARY = "libdcgm.so.4"
TCP = 1
CLOCK_INTERVAL = 0.5


class Shown:
    """Every window that was published, by the GPU's index."""

    def __init__(self) -> None:
        self.windows: dict[int, list[Window]] = {}

    def publish(self, snapshot: Snapshot) -> None:
        for view in snapshot.gpus:
            windows = self.windows.setdefault(int(view.gpu.index), [])
            if view.window is None or view.window.utilization is None:
                continue
            if windows and view.window.start < windows[-1].end:
                windows.pop()  # shown again, with what was measured since
            windows.append(view.window)


def serve(folder: Path, scenario: Path | None, port: int) -> None:
    """Be a host engine until the process is ended; without a scenario on the real driver."""
    if scenario:
        os.environ[nvml.SCENARIO_VARIABLE] = str(scenario)
        native.load(native.build(NVML_SOURCE, nvml.SONAME))
    library = ctypes.CDLL(str(folder / LIBRARY))
    HostEngine(Library(), EMBEDDED)
    library.dcgmEngineRun(ctypes.c_ushort(port), b"127.0.0.1", TCP)
    signal.pause()


def watch_too(folder: Path, port: int, field: int, seconds: float) -> None:
    """Be another client of the engine until the process is ended."""
    ctypes.CDLL(str(folder / LIBRARY))
    engine = HostEngine(Library(), f"127.0.0.1:{port}")
    engine.watch([Entity(GPU, number) for number in engine.gpus()], (field,), seconds)
    signal.pause()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(
    folder: Path, scratch: Path, options: argparse.Namespace
) -> Iterator[tuple[int, float]]:
    """An engine and its other client: the port, and when the loads began on the monotonic clock."""
    scenario = nvml.Scenario(scratch / "scenario", len(LOADS))
    scenario.driver(options.driver)
    for gpu, load in enumerate(LOADS):
        load.curve.write(scratch / f"curve-{gpu}")
        scenario.gpu(gpu, curve=str(scratch / f"curve-{gpu}"))
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = int(any_port.getsockname()[1])
    begun = scratch / "scenario.begun"
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=serve, args=(folder, scenario.path, port))]
    if options.client:
        field, _, seconds = options.client.partition(":")
        processes.append(
            spawn.Process(target=watch_too, args=(folder, port, int(field), float(seconds)))
        )
    try:
        processes[0].start()
        until(lambda: begun.exists() and listens(port), 60.0)
        for process in processes[1:]:
            process.start()
            time.sleep(2.0)
        yield port, float(begun.read_text())
    finally:
        for process in processes:
            process.kill()


def measured(folder: Path, options: argparse.Namespace) -> tuple[dict[int, list[Window]], float]:
    """The windows of each load, and when the loads began."""
    shown = Shown()
    ctypes.CDLL(str(folder / LIBRARY))
    with (
        tempfile.TemporaryDirectory() as scratch,
        running(folder, Path(scratch), options) as (port, begun),
    ):
        source = driver.Options(dcgm_address=f"127.0.0.1:{port}")
        pace = SamplingPace(options.interval, CLOCK_INTERVAL)
        plan = SamplingPlan([SourceBuilder("dcgm", lambda: driver.Source(source))], pace)
        sampler = Sampler(plan, shown.publish, time.monotonic)
        sampler.start()
        time.sleep(options.seconds)
        sampler.stop(5.0)
    return shown.windows, begun


def row(load: Load, windows: Sequence[Window], begun: float, interval: float) -> str:
    settled = [each for each in windows if each.start > windows[0].start + SETTLED_SECONDS]
    errors = [
        (each.utilization or 0.0) - load.curve.utilization(each.start - begun, each.end - begun)
        for each in settled
    ]
    stated = [each.stderr or 0.0 for each in settled]
    seconds = math.fsum(each.seconds for each in settled)
    weighted = (error * each.seconds for error, each in zip(errors, settled, strict=True))
    inside = (abs(e) <= 2 * s + ROUNDING for e, s in zip(errors, stated, strict=True))
    cells = [
        f"{100 * math.fsum(weighted) / seconds + 0.0:+.2f}",
        f"±{100 * statistics.fmean(stated):.2f}",
        f"{100 * max(map(abs, errors)):.2f}",
        f"{statistics.fmean(inside):.0%} of {len(settled)}",
        f"{min(each.seconds for each in settled) / interval:.2f}",
        f"{statistics.fmean(each.clock_method == 'cycles' for each in settled):.0%}",
    ]
    return f"| {load.name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.host_engine", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--interval", type=float, default=5.0)
    parser.add_argument("--driver", default="595.45", help="below 595 there are no cycle counters")
    parser.add_argument("--client", default="", help="FIELD:SECONDS that another client watches")
    options = parser.parse_args()
    windows, begun = measured(options.folder, options)
    print("| load | bias | stated | worst | inside | shortest | by cycles |")
    print("|---|---|---|---|---|---|---|")
    for gpu, load in enumerate(LOADS):
        print(row(load, windows[gpu], begun, options.interval), flush=True)


if __name__ == "__main__":
    main()
