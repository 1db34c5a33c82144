"""What a GPU truly does: tensor activity and SM clock at every instant, and their integrals in closed form.

Nothing here knows the agent. The hardware's activity is a share of elapsed cycles, so the mean over a level of time
is weighted with the clock: integral(a f) / integral(f).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

TENSOR_CLOCK_MHZ = 1830.0
"""Of the simulated card, an H100 SXM: 989.4 TFLOP/s = 132 SMs x 4096 FLOPs per cycle x 1830 MHz."""


class Level(NamedTuple):
    """A level of time in which nothing changes."""

    seconds: float
    tensor: float
    """Share of the elapsed cycles in which the tensor pipe is active, 0..1."""
    mhz: int
    """SM clock."""


@dataclass(frozen=True)
class Work:
    """What was done up to an instant; a cycle is a million here."""

    cycles: float = 0.0
    tensor: float = 0.0
    busy_seconds: float = 0.0
    """Time in which there was any work."""


class Curve:
    """Stretches of time one after another from 0 on; the last one holds on."""

    def __init__(self, levels: Iterable[Level]) -> None:
        self.levels = list(levels)
        self._starts = [0.0]
        self._done = [Work()]
        for each in self.levels:
            self._starts.append(self._starts[-1] + each.seconds)
            self._done.append(_add(self._done[-1], each, each.seconds))

    @property
    def seconds(self) -> float:
        return self._starts[-1]

    def at(self, time: float) -> Level:
        """What holds at an instant; at a boundary what begins there."""
        return self.levels[self._index(time)]

    def done(self, time: float) -> Work:
        """The integrals from 0 on."""
        index = self._index(time)
        return _add(self._done[index], self.levels[index], time - self._starts[index])

    def utilization(self, start: float, end: float) -> float:
        """OFU: tensor cycles over what there would be at the tensor clock."""
        tensor = self.done(end).tensor - self.done(start).tensor
        return tensor / ((end - start) * TENSOR_CLOCK_MHZ)

    def tensor_active(self, start: float, end: float) -> float:
        """What the hardware's counter says of a level of time."""
        before, after = self.done(start), self.done(end)
        return (after.tensor - before.tensor) / (after.cycles - before.cycles)

    def busy(self, start: float, end: float) -> float:
        """Share of the time in which there was any work."""
        return (self.done(end).busy_seconds - self.done(start).busy_seconds) / (end - start)

    def write(self, path: Path) -> None:
        """The file that the stand-ins in C read: tests/doubles/curve.h."""
        path.write_text(self._text)

    @cached_property
    def _text(self) -> str:
        return "".join(f"{s:.9f} {a!r} {f}\n" for s, a, f in self.levels)

    def _index(self, time: float) -> int:
        return max(0, min(bisect_right(self._starts, time) - 1, len(self.levels) - 1))


def _add(done: Work, level: Level, seconds: float) -> Work:
    cycles = seconds * level.mhz
    return Work(
        done.cycles + cycles,
        done.tensor + cycles * level.tensor,
        done.busy_seconds + (seconds if level.tensor > 0 else 0.0),
    )
