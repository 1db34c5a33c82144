"""What a GPU truly does when kernels overlap at random: engine, SMs, tensor pipes, memory, links, clock and power.

Nothing here knows the agent or its formulas. Two streams launch kernels one after another, with pauses; each kind of
kernel has its own occupancy of everything. Where two run at once, their SMs overlap by chance, and what they share is
shared. Every instant is a level in which nothing changes, so the parts of the peak are sums over levels, in seconds.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from tests.simulator.curve import TENSOR_CLOCK_MHZ, Curve, Level

LINK_BYTES = 450e9
"""NVLink of an H100 SXM, each direction."""
PAUSE = "pause"


class Kernel(NamedTuple):
    """A kind of kernel while it runs alone. Shares of all SMs, of the memory's and of the links' rated speed."""

    name: str
    seconds: tuple[float, float]
    sm: tuple[float, float]
    tensor: tuple[float, float] = (0.0, 0.0)
    """Of the SMs that it is on."""
    dram: tuple[float, float] = (0.0, 0.0)
    link: tuple[float, float] = (0.0, 0.0)
    fp32: tuple[float, float] = (0.0, 0.0)
    """Of the SMs that it is on."""


GEMM = Kernel("gemm", (0.03, 0.3), (0.85, 1.0), (0.6, 0.95), (0.1, 0.4), fp32=(0.01, 0.05))
SMALL_GEMM = Kernel("small gemm", (0.01, 0.1), (0.05, 0.4), (0.3, 0.8), (0.02, 0.2))
COPY = Kernel("copy", (0.02, 0.4), (0.8, 1.0), dram=(0.75, 0.97), fp32=(0.02, 0.08))
DECODE = Kernel("decode", (0.02, 0.3), (0.6, 0.95), (0.05, 0.2), (0.6, 0.92))
ELEMENTS = Kernel("element-wise", (0.02, 0.2), (0.9, 1.0), dram=(0.05, 0.3), fp32=(0.75, 0.98))
ALL_REDUCE = Kernel("all-reduce", (0.05, 0.5), (0.08, 0.2), dram=(0.1, 0.3), link=(0.5, 0.9))
WAITING = Kernel("waiting", (0.05, 0.8), (0.08, 0.9), link=(0.0, 0.02))
EXCHANGE = Kernel("exchange", (0.1, 0.5), (0.9, 1.0), dram=(0.1, 0.3), link=(0.85, 0.98))
PAUSED = Kernel(PAUSE, (0.02, 0.6), (0.0, 0.0))
KERNELS = (GEMM, SMALL_GEMM, COPY, DECODE, ELEMENTS, ALL_REDUCE, WAITING, EXCHANGE, PAUSED)


class Doing(NamedTuple):
    """What a GPU does in a level. Shares are of the whole GPU."""

    seconds: float
    engine: float
    sm: float
    tensor: float
    dram: float
    fp32: float
    link: float
    mhz: float
    watts: float
    kernels: tuple[str, ...]


class Truth(NamedTuple):
    """Seconds of each part of the peak, and of what overlapped the seconds without tensor work."""

    used: float
    clock: float
    no_tensor: float
    empty_sms: float
    idle: float
    memory: float
    """Of `no_tensor`: seconds at the memory's full speed; the two below alike."""
    links: float
    arithmetic: float
    none: float
    """Seconds in which none of these was busy."""
    joules: float


class Phases:
    """A job's life on one GPU."""

    def __init__(self, mix: dict[Kernel, float], clock: str, seconds: float, seed: str) -> None:
        self._chance = random.Random(seed)
        first, second = (list(self._stream(mix, seconds)) for _ in range(2))
        self.levels = list(self._merged(first, second, clock))
        self.ends = list(accumulate(each.seconds for each in self.levels))

    @property
    def curve(self) -> PhaseCurve:
        """For the stand-ins in C, and for the simulator's judge of OFU."""
        return PhaseCurve(self.levels)

    def truth(self, start: float, end: float) -> Truth:
        """The sums over a stretch of time."""
        rows = [_truth(each, seconds) for seconds, each in self._inside(start, end)]
        return Truth(*(math.fsum(column) for column in zip(*rows, strict=True)))

    def counted(self, start: float, end: float) -> dict[str, float]:
        """By the hardware's definitions: tensor and SM activity are shares of cycles, not of time."""
        cycles = tensor = sm = engine = 0.0
        for seconds, each in self._inside(start, end):
            cycles += seconds * each.mhz
            tensor += seconds * each.mhz * each.tensor
            sm += seconds * each.mhz * each.sm
            engine += seconds * each.engine
        length = end - start
        used = tensor / (TENSOR_CLOCK_MHZ * length)
        return {
            "clock": tensor / cycles - used,
            "no_tensor": (sm - tensor) / cycles,
            "empty_sms": engine / length - sm / cycles,
            "idle": 1 - engine / length,
        }

    def means(self, start: float, end: float) -> Doing:
        """The means over a stretch of time, as counters give them; the clock's too."""
        inside = self._inside(start, end)
        seconds = math.fsum(length for length, _ in inside)
        means = [
            math.fsum(length * getattr(each, name) for length, each in inside) / seconds
            for name in Doing._fields[1:-1]
        ]
        return Doing._make([seconds, *means, ()])

    def _inside(self, start: float, end: float) -> list[tuple[float, Doing]]:
        """The levels of a stretch of time, each with its seconds in it."""
        first, last = bisect_right(self.ends, start), bisect_left(self.ends, end)
        return [
            (min(until, end) - max(until - each.seconds, start), each)
            for until, each in zip(
                self.ends[first : last + 1], self.levels[first : last + 1], strict=True
            )
        ]

    def _stream(
        self, mix: dict[Kernel, float], seconds: float
    ) -> Iterator[tuple[float, Kernel, Doing]]:
        """Kernels of one stream, each with its end and what it does."""
        at = 0.0
        while at < seconds:
            (kernel,) = self._chance.choices(list(mix), list(mix.values()))
            at += round(self._chance.uniform(*kernel.seconds), 6)
            yield at, kernel, self._alone(kernel)

    def _alone(self, kernel: Kernel) -> Doing:
        draw = self._chance.uniform
        sm = draw(*kernel.sm)
        fp32, tensor = sm * draw(*kernel.fp32), sm * draw(*kernel.tensor)
        busy = 0.0 if kernel.name == PAUSE else 1.0
        dram, link = draw(*kernel.dram), draw(*kernel.link)
        return Doing(0.0, busy, sm, tensor, dram, fp32, link, 0, 0.0, (kernel.name,))

    def _merged(
        self,
        first: list[tuple[float, Kernel, Doing]],
        second: list[tuple[float, Kernel, Doing]],
        clock: str,
    ) -> Iterator[Doing]:
        bounds = sorted({0.0, *(end for end, *_ in first), *(end for end, *_ in second)})
        last = min(first[-1][0], second[-1][0])
        at = [0, 0]
        for start, end in pairwise(bounds):
            if end > last:
                return
            for place, stream in enumerate((first, second)):
                while stream[at[place]][0] <= start:
                    at[place] += 1
            yield self._together(first[at[0]][2], second[at[1]][2], round(end - start, 6), clock)

    def _together(self, one: Doing, other: Doing, seconds: float, clock: str) -> Doing:
        """Two kernels at once: their SMs overlap by chance, and no resource is busier than it can be."""
        apart, inside = min(1.0, one.sm + other.sm), max(one.sm, other.sm)
        sm = self._chance.uniform(inside, apart)
        tensor = min(sm, one.tensor + other.tensor)
        doing = Doing(
            seconds=seconds,
            engine=max(one.engine, other.engine),
            sm=sm,
            tensor=tensor,
            dram=min(1.0, one.dram + other.dram),
            fp32=min(sm, one.fp32 + other.fp32),
            link=min(1.0, one.link + other.link),
            mhz=0,
            watts=0.0,
            kernels=one.kernels + other.kernels,
        )
        watts = 110 + 120 * doing.engine + 350 * tensor + 120 * doing.dram
        return doing._replace(mhz=self._mhz(clock, tensor, doing.engine), watts=watts)

    def _mhz(self, clock: str, tensor: float, engine: float) -> int:
        """Mild: near one clock. Harsh: power takes a third of the clock away under full tensor load, at once."""
        noise = self._chance.gauss(0, 1)
        if clock == "mild":
            return round(1755 + 15 * noise)
        return round(1980 - 620 * tensor + 20 * noise) if engine else 1980


class PhaseCurve(Curve):
    """The levels as the stand-ins read them."""

    def __init__(self, levels: list[Doing]) -> None:
        super().__init__(Level(each.seconds, each.tensor, round(each.mhz)) for each in levels)
        self._doing = levels

    def write(self, path: Path) -> None:
        path.write_text(
            "".join(
                f"{d.seconds:.9f} {d.tensor!r} {d.mhz} {d.engine!r} {d.sm!r} {d.dram!r} {d.fp32!r} "
                f"{d.link * LINK_BYTES!r} {d.watts!r}\n"
                for d in self._doing
            )
        )


def _truth(doing: Doing, seconds: float) -> Truth:
    speed = doing.mhz / TENSOR_CLOCK_MHZ
    bare = doing.sm - doing.tensor
    arithmetic = doing.fp32 * bare / doing.sm if doing.sm else 0.0
    quiet = (1 - doing.dram) * (1 - doing.link)
    return Truth(
        used=seconds * doing.tensor * speed,
        clock=seconds * doing.tensor * (1 - speed),
        no_tensor=seconds * bare,
        empty_sms=seconds * (doing.engine - doing.sm),
        idle=seconds * (1 - doing.engine),
        memory=seconds * doing.dram * bare,
        links=seconds * doing.link * bare,
        arithmetic=seconds * arithmetic,
        none=seconds * (bare - arithmetic) * quiet,
        joules=seconds * doing.watts,
    )
