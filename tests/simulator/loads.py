"""The loads that every source is judged by: what a GPU does for a little more than ten minutes.

Activity scatters by a thousandth everywhere, as no real counter stands still; all chance comes from the load's name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tests.simulator.curve import Curve, Level

SECONDS = 660.0
"""Longer than a run, which begins a few seconds into the load."""
SCATTER = 1e-3
CLOCK_MHZ, CLOCK_STD_MHZ = 1352, 32
"""An H100 under a sustained product (arXiv:2605.20799, section IV-C)."""

Shape = Callable[[random.Random], Iterator[Level]]
"""Stretches without end."""


@dataclass(frozen=True)
class Load:
    """A load and how far the mean over ten minutes may be off."""

    name: str
    shape: Shape
    mild: bool
    """Work as one sees it; the others are made to be as hard as can be."""
    variant: int = 0
    """Another has the same shape and other chance."""

    @property
    def key(self) -> str:
        return f"{self.name} {self.variant}" if self.variant else self.name

    @cached_property
    def curve(self) -> Curve:
        chance = random.Random(self.key)
        taken: list[Level] = []
        seconds = 0.0
        for each in self.shape(chance):
            if seconds >= SECONDS:
                break
            tensor = each.tensor * (1 + SCATTER * chance.gauss(0, 1))
            # Whole microseconds: the curve's file and its sums here are then the same.
            taken.append(Level(round(each.seconds, 6), round(min(tensor, 1.0), 9), each.mhz))
            seconds += taken[-1].seconds
        return Curve(taken)


def repeated(*levels: Level) -> Shape:
    def shape(_: random.Random) -> Iterator[Level]:
        while True:
            yield from levels

    return shape


def square(period: float, high: tuple[float, int], low: tuple[float, int]) -> Shape:
    """Half of each period one, half the other."""
    return repeated(Level(period / 2, *high), Level(period / 2, *low))


def ramps(_: random.Random) -> Iterator[Level]:
    """Activity up and down in 120 s, the clock down and up in 97."""
    step = 0.1
    index = 0
    while True:
        second = (index + 0.5) * step
        tensor = 0.3 + 0.5 * _triangle(second / 120)
        yield Level(step, tensor, round(1830 - 400 * _triangle(second / 97)))
        index += 1


def _triangle(turns: float) -> float:
    """0 to 1 and back."""
    return 1 - abs(1 - 2 * (turns % 1))


def noise(memory: float) -> Shape:
    """Steady work at a clock whose noise is forgotten after some seconds; 0 = at once."""
    step = 0.02
    kept = math.exp(-step / memory) if memory else 0.0

    def shape(chance: random.Random) -> Iterator[Level]:
        off = chance.gauss(0, 1)
        while True:
            off = kept * off + math.sqrt(1 - kept * kept) * chance.gauss(0, 1)
            yield Level(step, 0.7, round(CLOCK_MHZ + CLOCK_STD_MHZ * off))

    return shape


def training(chance: random.Random) -> Iterator[Level]:
    """Steps of 2.3 s: kernels of all kinds at the clock that power allows, then 0.4 s of communication above it."""
    while True:
        left = 1.9
        while left > 0:
            seconds = min(left, round(chance.uniform(0.02, 0.15), 3))
            clock = round(chance.gauss(CLOCK_MHZ, CLOCK_STD_MHZ))
            yield Level(seconds, chance.uniform(0.4, 0.95), clock)
            left = round(left - seconds, 3)
        yield Level(0.4, 0.02, round(chance.gauss(1755, 15)))


LOADS = (
    Load("steady", repeated(Level(0.1, 0.62, 1410)), mild=True),
    Load("idle", repeated(Level(1.0, 0.0, 345)), mild=True),
    Load("mild steps", repeated(Level(5.3, 0.7, 1500), Level(5.3, 0.3, 1700)), mild=True),
    Load("ten-second steps", repeated(Level(10, 0.6, 1350), Level(10, 0.45, 1500)), mild=True),
    Load("slow ramps", ramps, mild=True),
    Load("clock noise", noise(0.0), mild=True),
    Load("slower clock noise", noise(0.2), mild=True),
    Load("training", training, mild=True),
    Load("hard steps", repeated(Level(5.3, 0.9, 1400), Level(5.3, 0.05, 1980)), mild=False),
    Load("work and sleep", repeated(Level(5.3, 0.8, 1905), Level(5.3, 0.0, 345)), mild=False),
    Load("bursts", repeated(Level(0.3, 0.95, 1350), Level(1.8, 0.0, 1980)), mild=False),
    Load("deep bursts", repeated(Level(0.45, 0.9, 1755), Level(1.5, 0.0, 345)), mild=False),
    Load("square, 0.5 s", square(0.5, (0.9, 1400), (0.1, 1900)), mild=False),
    Load("square, 1 s", square(1.0, (0.9, 1400), (0.1, 1900)), mild=False),
)

BY_NAME = {load.name: load for load in LOADS}
EVENTFUL = BY_NAME["training"]
"""During this one things go wrong."""
