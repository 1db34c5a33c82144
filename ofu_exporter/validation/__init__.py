"""Measures how close OFU is to the MFU of products whose FLOPs are known, on this card.

This file has the values and protocols. A machine runs a product again and again and counts the launches, while a
watch, the agent's own sampler, measures OFU. Both are compared over the time in which both are known, as in
arXiv:2605.20799, section V-A.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.traces.formats import Profile
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Reading
from ofu_exporter.values.reported import Bound

TrialKind = Literal["aligned", "unaligned", "square", "noise", "clock"]
"""Why a product is run: random multiples of 16, random sides, the curve over sizes, clock noise, clock domains."""


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = A[m, k] B[k, n], row-major, to be run for some time."""

    kind: TrialKind
    precision: str
    m: int
    n: int
    k: int
    seconds: float
    zeros: bool = False
    """Whether the operands are zeros. Zeros need less power, so the clock stays high."""

    @property
    def gemm(self) -> Gemm:
        """The product in the kernel's order: m and n of a row-major product are swapped."""
        return Gemm(self.n, self.m, self.k)

    @property
    def flops(self) -> int:
        """Theoretical FLOPs of one launch."""
        return self.gemm.theoretical_flops


class Mark(NamedTuple):
    """How many launches had ended at an instant."""

    at: float
    """Seconds, on the monotonic clock of the readings."""
    launches: float


@dataclass(frozen=True, slots=True)
class Tiling:
    """What tiles add to one product, by its kernels' names."""

    overhead_ratio: float | None
    """None = the names do not say."""
    bound: Bound
    attributed_share: float
    """Share of the time in tensor kernels that the overhead covers."""
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    product: Product
    marks: tuple[Mark, ...]
    readings: tuple[Reading, ...]
    tiling: Tiling


class Machine(Protocol):
    uuid: str
    """The GPU's uuid in the agent's sources."""
    software: Mapping[str, str]
    """Versions of the software that runs the products."""

    def refusals(self, precisions: Sequence[str]) -> Mapping[str, str]:
        """Why it cannot be run, for each precision that cannot be run here."""

    def profile(self, product: Product) -> Profile:
        """A profile of one launch or a few."""

    def run(self, product: Product) -> Sequence[Mark]:
        """Run a product for its time; returns at least two marks, in order."""

    def close(self) -> None:
        """Release the GPU. Never raises."""


class Watch(Protocol):
    """The agent's sampler."""

    @property
    def source(self) -> str:
        """The name of the source that is read; "" until a GPU was read."""

    @property
    def simulated(self) -> bool:
        """Whether the readings are made up."""

    def gpu(self, uuid: str) -> Gpu:
        """The GPU of a machine. Raises OfuError when it is not measured."""

    def readings(self, uuid: str, since: float, until: float) -> Sequence[Reading]:
        """Every window of a GPU that overlaps this time, in order; waits for the last of them.

        Raises OfuError if the GPU is no longer measured.
        """

    def close(self) -> None:
        """Stop sampling. Never raises."""
