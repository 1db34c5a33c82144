"""The two stand-ins in C, told what GPUs do and what time it is: NVML with GPM samples, and a DCGM host engine.

Each integrates the load by itself. The seconds here are those of the load; START and EPOCH are the monotonic clock
and Unix time at its beginning.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from pathlib import Path

from tests.doubles import dcgm, nvml
from tests.simulator.curve import Curve

START = 100.0
EPOCH = 1_800_000_000.0

DRIVER, DRIVER_WITH_CYCLES = "550.54.15", "595.45.04"
STEADY_REFRESH_SECONDS = 0.1
"""Of a stand-in that is not told another."""
REFRESH_SECONDS = 0.1004
"""A real one's is not the host's either: it drifted by 0.4 ms a second and more (docs/hardware.md)."""
CALL_SECONDS = 0.002
"""How long the driver takes to read a clock or a sample."""
THREAD_LATE_MICROS, FIELD_MICROS = 200, 15
"""How late a host engine begins a round, and how long it takes for each field: a round of a dozen GPUs spans 3 ms, and
a field keeps its place in the second."""


def renewed(seconds: float, gpu: int = 0, period: float = REFRESH_SECONDS) -> float:
    """When the counters were renewed that a host engine reads then: the rule of curve.h."""
    phase = 0.037 * gpu
    return phase + period * math.floor((seconds - phase) / period + 1e-6)


def renewed_of_nvml(seconds: float) -> float:
    """The same of the first GPU of NVML, which counts from START on."""
    return renewed(seconds + START) - START


class NvmlServer:
    """NVML: every call takes its time, so the library keeps the clock, also the agent's."""

    def __init__(self, folder: Path, curves: Sequence[Curve], cycles: bool) -> None:
        self._library = nvml.load()
        os.environ[nvml.SCENARIO_VARIABLE] = str(folder / "scenario")
        scenario = nvml.Scenario(folder / "scenario", len(curves))
        scenario.driver(DRIVER_WITH_CYCLES if cycles else DRIVER)
        scenario.at(START)
        for gpu, curve in enumerate(curves):
            curve.write(folder / f"curve-{gpu}")
            scenario.gpu(gpu, curve=str(folder / f"curve-{gpu}"))
        self._library.test_reset()
        self._library.test_time.restype = ctypes.c_double
        for word, seconds in (("call_seconds", CALL_SECONDS), ("refresh", REFRESH_SECONDS)):
            self.say(f"{word} {seconds}")

    def now(self) -> float:
        return float(self._library.test_time()) - START

    def advance(self, to: float) -> None:
        self.say(f"time {max(to + START, self.now() + START)!r}")

    def say(self, line: str) -> None:
        """A line of the scenario."""
        self._library.test_apply(line.encode())

    def close(self) -> None:
        del os.environ[nvml.SCENARIO_VARIABLE]


class DcgmServer:
    """A host engine: it samples by itself while time passes."""

    def __init__(self, folder: Path, curves: Sequence[Curve], version: str) -> None:
        self._library = dcgm.load()
        os.environ[dcgm.SCENARIO_VARIABLE] = str(folder / "scenario")
        self._scenario = dcgm.Scenario(folder / "scenario", len(curves))
        self._now = 0.0
        self.say(f"version {version}", f"thread {THREAD_LATE_MICROS} {FIELD_MICROS}")
        self.say(f"refresh {REFRESH_SECONDS}")
        self.say(f"time {EPOCH:.6f}")
        for gpu, curve in enumerate(curves):
            curve.write(folder / f"curve-{gpu}")
            self.say(f"gpu {gpu} curve {folder / f'curve-{gpu}'}")
        self._library.test_reset()

    def now(self) -> float:
        return self._now

    def advance(self, to: float) -> None:
        self._now = to
        self.say(f"time {EPOCH + to:.6f}")

    def say(self, *lines: str) -> None:
        """Lines of the scenario."""
        self._scenario.add(*lines)

    def close(self) -> None:
        del os.environ[dcgm.SCENARIO_VARIABLE]
