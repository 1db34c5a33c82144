"""The `dcgm` source on a card beside `nvml` over the same minutes: `python -m tests.hardware.both_sources OUT`.

HOST_ENGINE is a folder with `libdcgm.so.4`, which is client and host engine in one. The load works for 0.7 s of
every 1.1, so that a window of 5 s is about the same wherever it begins. Windows of 1, 5 and 30 s, a second client at
0.1 s, and an engine that is stopped and started: OUT is written anew after each, with all windows. Without HOST_ENGINE
the stand-ins for NVML and DCGM are compared.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.agent.sampler import Sampler, SamplingPlan
from ofu_exporter.agent.source_opening import SourceBuilder
from ofu_exporter.sources.dcgm import driver as dcgm_driver
from ofu_exporter.sources.nvml import driver as nvml_driver
from ofu_exporter.validation import Product, cuda
from ofu_exporter.values.reading import Window
from tests.bench.host_engine import LIBRARY, Shown, listens, serve, watch_too
from tests.doubles import dcgm
from tests.hardware.counters import pause
from tests.helpers.agent import until

LOAD, PAUSE_SECONDS = Product("noise", "bf16", 8192, 8192, 8192, 0.7), 0.4
CLIENT_FIELD, CLIENT_SECONDS = 1001, 0.1
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Phase:
    name: str
    interval: float
    seconds: float
    client: bool = False
    restart: bool = False


PHASES = (
    Phase("windows of 1 s", 1.0, 15.0),
    Phase("windows of 5 s", 5.0, 32.0),
    Phase("5 s, another client at 0.1 s", 5.0, 32.0, client=True),
    Phase("engine stopped and started", 1.0, 24.0, restart=True),
    Phase("windows of 30 s", 30.0, 95.0),
)


class Engine:
    """The host engine of HOST_ENGINE, or the stand-in's."""

    def __init__(self) -> None:
        folder = os.environ.get("HOST_ENGINE")
        if not folder and dcgm.SCENARIO_VARIABLE not in os.environ:
            raise SystemExit(f"no host engine: --engine names a folder with {LIBRARY}")
        self.folder = Path(folder) if folder else None
        self.port = 5555 if self.folder is None else _free_port()
        self._process: BaseProcess | None = None
        if self.folder:
            ctypes.CDLL(str(self.folder / LIBRARY))

    def start(self) -> None:
        if self.folder:
            self._process = SPAWN.Process(target=serve, args=(self.folder, None, self.port))
            self._process.start()
            until(lambda: listens(self.port), 60.0)
        else:
            self._say("engine 1")

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.join()
        elif self.folder is None:
            self._say("engine 0")

    @staticmethod
    def _say(line: str) -> None:
        with Path(os.environ[dcgm.SCENARIO_VARIABLE]).open("a") as scenario:
            scenario.write(f"{line}\n")

    @contextmanager
    def client(self, wanted: bool) -> Iterator[None]:
        """Another process that watches a field ten times a second."""
        if not (wanted and self.folder):
            yield
            return
        args = (self.folder, self.port, CLIENT_FIELD, CLIENT_SECONDS)
        other = SPAWN.Process(target=watch_too, args=args)
        other.start()
        try:
            yield
        finally:
            other.kill()


def _free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return int(any_port.getsockname()[1])


def work() -> None:
    """On and off, until the process is ended."""
    machine = cuda.CudaMachine(0)
    while True:
        machine.run(LOAD)
        pause(PAUSE_SECONDS)


def windows(engine: Engine, phase: Phase) -> Mapping[str, Sequence[Window]]:
    """What both sources saw in the time of a phase."""
    options = dcgm_driver.Options(dcgm_address=f"127.0.0.1:{engine.port}")
    sources = {
        "dcgm": lambda: dcgm_driver.Source(options),
        "nvml": lambda: nvml_driver.Source(nvml_driver.Options()),
    }
    shown = {name: Shown() for name in sources}
    with engine.client(phase.client):
        running = [
            Sampler(
                SamplingPlan([SourceBuilder(name, make)], SamplingPace(phase.interval)),
                shown[name].publish,
                time.monotonic,
            )
            for name, make in sources.items()
        ]
        for sampler in running:
            sampler.start()
        pause(phase.seconds / 3)
        if phase.restart:
            engine.stop()
            pause(phase.seconds / 6)
            engine.start()
        pause(phase.seconds * (1 / 2 if phase.restart else 2 / 3))
        for sampler in running:
            sampler.stop(5.0)
    return {name: each.windows.get(0, []) for name, each in shown.items()}


def compared(found: Mapping[str, Sequence[Window]]) -> Mapping[str, Any]:
    """Means over the span that both have, window against window, and how long either had none."""
    begin, end = max(f[0].start for f in found.values()), min(f[-1].end for f in found.values())
    inside = {k: [w for w in f if w.start >= begin and w.end <= end] for k, f in found.items()}
    apart = [
        (100 * ((one.utilization or 0.0) - other), 100 * (one.stderr or 0.0))
        for one in found["dcgm"]
        if (other := _over(found["nvml"], one.start, one.end)) is not None
    ]
    return {
        "windows": {name: len(each) for name, each in inside.items()},
        "mean_ofu": {name: _mean(each, "utilization") for name, each in inside.items()},
        "tensor_active": {name: _mean(each, "tensor_active") for name, each in inside.items()},
        "clock_hz": {name: _mean(each, "sm_clock_hz") for name, each in inside.items()},
        "pipes": {name: _means([w.pipes for w in each]) for name, each in inside.items()},
        "losses": {
            name: _means([{k.value: v for k, v in w.losses.items()} for w in each])
            for name, each in inside.items()
        },
        "mean_points_apart": statistics.fmean(abs(d) for d, _ in apart) if apart else None,
        "largest_points_apart": max((abs(d) for d, _ in apart), default=None),
        "mean_stated_error": statistics.fmean(s for _, s in apart) if apart else None,
        "longest_gap_seconds": {
            name: max((b.start - a.end for a, b in pairwise(f)), default=0.0)
            for name, f in found.items()
        },
        "all": {
            name: [
                (w.start, w.end, w.utilization, w.tensor_active, w.sm_clock_hz, w.stderr)
                for w in each
            ]
            for name, each in found.items()
        },
    }


def _over(series: Sequence[Window], start: float, end: float) -> float | None:
    """OFU of other windows over this span, where they fill it."""
    shares = [(min(w.end, end) - max(w.start, start), w) for w in series]
    inside = [(share, w.utilization or 0.0) for share, w in shares if share > 0]
    seconds = sum(share for share, _ in inside)
    return sum(s * u for s, u in inside) / seconds if seconds > 0.99 * (end - start) else None


def _mean(series: Sequence[Window], name: str) -> float | None:
    seconds = sum(w.seconds for w in series)
    return sum((getattr(w, name) or 0.0) * w.seconds for w in series) / seconds if series else None


def _means(rows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    names = {name for row in rows for name in row}
    return {name: statistics.fmean(row.get(name, 0.0) for row in rows) for name in sorted(names)}


def main(args: Sequence[str]) -> None:
    if len(args) not in (1, 2):
        raise SystemExit(__doc__)
    scale = float(args[1]) if args[1:] else 1.0
    found: dict[str, Mapping[str, Any]] = {}
    out, engine = Path(args[0]), Engine()
    load = SPAWN.Process(target=work) if engine.folder else None
    try:
        engine.start()
        if load:
            load.start()
            pause(8.0)
        for whole in PHASES:
            phase = replace(whole, seconds=scale * whole.seconds)
            if phase.seconds < 3 * phase.interval:
                continue
            try:
                found[phase.name] = compared(windows(engine, phase))
            except Exception as error:  # noqa: BLE001 - a phase that fails must not cost the others
                found[phase.name] = {"failed": f"{type(error).__name__}: {error}"}
            out.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        if load and load.is_alive():
            load.kill()
        engine.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main(sys.argv[1:])
