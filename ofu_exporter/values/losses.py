"""Names the parts of a GPU's peak that were not used, and what the time without tensor work was about."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

JOULES_PER_KWH = 3.6e6


class Loss(str, Enum):
    """A part of the peak that was not used; the label value of `ofu_gpu_lost_seconds_total`.

    The last four stand for several of the first four: three where a counter is missing that would tell them apart,
    and `unsplit` in a report where the history has no parts. No agent counts it.
    """

    _value_: str
    words: str
    """The name as people read it."""
    meaning: str
    """What the GPU did in this part, in a few words."""

    def __new__(cls, part: str, words: str = "", meaning: str = "") -> Loss:
        member = str.__new__(cls, part)
        member._value_, member.words, member.meaning = part, words, meaning
        return member

    CLOCK = "clock", "clock", "the tensor pipes ran below the tensor clock"
    NO_TENSOR = "no_tensor", "no tensor work", "SMs had work, but no tensor instruction ran"
    EMPTY_SMS = "empty_sms", "empty SMs", "kernels ran on a part of the SMs"
    IDLE = "idle", "idle", "no kernel ran"
    ENGINE_WITHOUT_TENSOR = (
        "engine_without_tensor",
        "engine without tensor work",
        "kernels ran, but no tensor instruction",
    )
    EMPTY_OR_IDLE = "empty_or_idle", "empty SMs or idle", "SMs had no work"
    WITHOUT_TENSOR = "without_tensor", "no tensor work or idle", "no tensor instruction ran"
    UNSPLIT = "unsplit", "not split", "no series says in which part"

    __hash__ = str.__hash__  # an Enum's own runs Python code, and these are keys of every window


Losses = Mapping[Loss, float]
"""What was lost, by part; only the parts that were measured. As shares of a window `clock` is negative where the pipes
ran above the tensor clock; in sums that is a gain of its own, because a counter must not fall."""

FILLED = (
    Loss.CLOCK,
    Loss.NO_TENSOR,
    Loss.ENGINE_WITHOUT_TENSOR,
    Loss.EMPTY_SMS,
    Loss.EMPTY_OR_IDLE,
)
"""The losses that a bar shows, from the left on; all others are its empty ground."""


class BarPiece(NamedTuple):
    """A piece of a bar of the peak, between two levels from 0 to 1."""

    kind: str
    """`used`, or the value of a loss."""
    start: float
    end: float


def spans(used: float, losses: Losses) -> Iterator[BarPiece]:
    """The pieces of a bar from the left on, as shares of a window: what was used, and what was lost in which part."""
    drawn = reached = 0.0
    lost = ((loss.value, losses[loss]) for loss in FILLED if loss in losses)
    for kind, share in [("used", used), *lost]:
        reached += share
        end = min(reached, 1.0)
        if end > drawn:
            yield BarPiece(kind, drawn, end)
            drawn = end


class Bottleneck(str, Enum):
    """What the time without tensor work may have been about."""

    MEMORY = "memory"
    LINKS = "links"
    ARITHMETIC = "other_arithmetic"
    NONE = "none_of_these"

    __hash__ = str.__hash__

    @property
    def words(self) -> str:
        """The name as people read it."""
        return self.value.replace("_", " ")


class Bounds(NamedTuple):
    """The smallest and the largest value that the counters allow."""

    lowest: float
    highest: float


BottleneckBounds = Mapping[Bottleneck, Bounds]


class MemorySums(NamedTuple):
    """How busy the memory was, over the GPU-seconds in which that was measured."""

    busy_seconds: float
    """Integral of the share of cycles in which the memory sent or received data."""
    seconds: float
    moved_bytes: float | None = None
    """What it moved by that share and its rated bandwidth; None where one GPU's bandwidth is not known."""

    def plus(self, other: MemorySums) -> MemorySums:
        """Both sums together."""
        both = self.moved_bytes, other.moved_bytes
        return MemorySums(
            self.busy_seconds + other.busy_seconds,
            self.seconds + other.seconds,
            None if None in both else known_sum(both),
        )


class LossSums(NamedTuple):
    """Sums over windows that had an OFU, in GPU-seconds: with the used seconds they add up to the observed ones."""

    lost: Losses = MappingProxyType({})
    gained: float = 0.0
    """What the tensor pipes gained above the tensor clock: observed = used + all that was lost - gained."""
    bottlenecks: BottleneckBounds = MappingProxyType({})
    """Of the seconds in `no_tensor`."""
    energy_joules: float | None = None
    """Energy by the card's own counter; None where it has none."""
    idle_energy_joules: float | None = None
    """Part of it in windows in which no kernel ran."""
    memory: MemorySums | None = None
    """None where nobody counts how busy the memory is."""

    @property
    def net(self) -> Losses:
        """What was lost, with the gain taken off the clock's part: with the used seconds it adds up to the observed."""
        if not self.gained:
            return self.lost
        return {**self.lost, Loss.CLOCK: self.lost.get(Loss.CLOCK, 0.0) - self.gained}

    def plus(self, other: LossSums) -> LossSums:
        """Both sums together."""
        lost, bottlenecks = dict(self.lost), dict(self.bottlenecks)
        for loss, seconds in other.lost.items():
            lost[loss] = lost.get(loss, 0.0) + seconds
        for bottleneck, (lowest, highest) in other.bottlenecks.items():
            before = bottlenecks.get(bottleneck, NO_TIME)
            bottlenecks[bottleneck] = Bounds(before.lowest + lowest, before.highest + highest)
        return LossSums(
            lost=lost,
            gained=self.gained + other.gained,
            bottlenecks=bottlenecks,
            energy_joules=known_sum((self.energy_joules, other.energy_joules)),
            idle_energy_joules=known_sum((self.idle_energy_joules, other.idle_energy_joules)),
            memory=self.memory.plus(other.memory)
            if self.memory and other.memory
            else self.memory or other.memory,
        )


NO_TIME = Bounds(0.0, 0.0)
NO_LOSSES = LossSums()


def known_sum(values: Iterable[float | None]) -> float | None:
    """The sum of the values that are known; None where none is."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) if numbers else None
