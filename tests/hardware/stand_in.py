"""Runs no product: sets the driver's stand-in to what a card that is held at its power limit would do meanwhile.

For a try of `second_hour.py` without a GPU. The clock that is named is too high by a sixth of the share of time that
the power cap holds it: a cause that was planted, to see whether the analysis finds it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ofu_exporter.traces.formats import KernelLaunches, Profile
from ofu_exporter.validation import Mark, Product
from tests.doubles.nvml import Scenario
from tests.hardware.counters import pause
from tests.validation.simulated_machine import KERNELS

SMS = 4
FLOPS_PER_CYCLE = {"bf16": 132 * 4096, "fp16": 132 * 4096, "fp8": 132 * 8192}
CHUNK_SECONDS = 0.05
HIGHEST_HZ, TRUE_HZ = 1830e6, 1368e6
TOO_HIGH = 1 / 6


class Machine:
    """What `CudaMachine` tells of products, and some work of one core in their place."""

    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    software: Mapping[str, str] = {}

    def refusals(self, precisions: Sequence[str]) -> Mapping[str, str]:
        return {each: "no stand-in" for each in precisions if each not in FLOPS_PER_CYCLE}

    def profile(self, product: Product) -> Profile:
        name, _ = _kernel(product)
        return Profile("stand-in", (KernelLaunches(name, 1, 1e-3, product.gemm),), 0.0)

    def run(self, product: Product) -> Sequence[Mark]:
        marks = [Mark(time.monotonic(), 0.0)]
        while marks[-1].at < marks[0].at + product.seconds:
            for _ in range(100):
                sum(range(10_000))
            marks.append(Mark(time.monotonic(), float(len(marks))))
        return marks

    def close(self) -> None:
        """Nothing is held."""


class NotedProduct:
    """Truth by arithmetic: cycles of the true clock, and launches of what the tensor pipe did."""

    def __init__(self, product: Product, scenario: Path) -> None:
        self._product, self._scenario = product, Scenario.__new__(Scenario)
        self._scenario.path = scenario
        drawn = random.Random(str(product))
        self._held = max(0.0, drawn.uniform(-0.5, 0.7))
        self._true_hz = TRUE_HZ if self._held else drawn.uniform(TRUE_HZ, HIGHEST_HZ)
        self._active = drawn.uniform(0.6, 0.9)

    def run(self, seconds: float) -> tuple[list[float], Any, int]:
        """As true_clock.NotedProduct has it."""
        named = self._true_hz * (1 + TOO_HIGH * self._held) / 1e6
        power = 690.0 if self._held else 600.0
        reasons = 4 if self._held else 0
        self._scenario.gpu(0, clock_mhz=[round(named)], tensor=self._active, hmma=self._active)
        self._scenario.gpu(0, held=self._held, power=power, clock_reasons=reasons)
        _, executed = _kernel(self._product)
        launched = self._active * self._true_hz * FLOPS_PER_CYCLE[self._product.precision]
        launches = max(1, round(CHUNK_SECONDS * launched / executed))
        chunk, began = launches * executed / launched, time.monotonic()
        times = [began + place * chunk for place in range(int(seconds / chunk) + 2)]
        pause(times[-1] - began)
        notes = [[[at * self._true_hz, 1e9 * at]] * SMS for at in times]
        return times, notes, launches


def _kernel(product: Product) -> tuple[str, int]:
    offered = [(each.name, each.executed_flops(product)) for each in KERNELS[product.precision]]
    return min(offered, key=lambda each: each[1])
