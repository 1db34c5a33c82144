"""Measures how near OFU comes to the MFU of products whose FLOPs are known, on the card at hand.

This file has the values and protocols. A machine runs a product again and again and says how often; a watch is the
agent's own sampler beside it. The time in which both are known is compared, as in arXiv:2605.20799, section V-A.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from ofu_exporter.hardware.profiles import Profile
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Reading
from ofu_exporter.values.reported import Bound

Kind = Literal["aligned", "unaligned", "square", "noise", "clock"]
"""Why a product is run: random multiples of 16, random sides, the curve over sizes, clock noise, clock domains."""


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = A[m, k] B[k, n], row-major, to be run for some time."""

    kind: Kind
    precision: str
    m: int
    n: int
    k: int
    seconds: float
    zeros: bool = False
    """Whether the operands are zeros, which need less power, so that the clock stays high."""

    @property
    def gemm(self) -> Gemm:
        """The product in the kernel's order: m and n of a row-major product change places."""
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
    """One product that was run, with its marks, readings and tiles."""

    product: Product
    marks: tuple[Mark, ...]
    readings: tuple[Reading, ...]
    tiling: Tiling


class Machine(Protocol):
    """Runs products on one GPU."""

    @property
    def simulated(self) -> bool:
        """Whether the machine is simulated, and no GPU runs anything."""

    @property
    def uuid(self) -> str:
        """The GPU's uuid in the agent's sources."""

    @property
    def software(self) -> Mapping[str, str]:
        """Versions of the software that runs the products."""

    def refusals(self, precisions: Sequence[str]) -> Mapping[str, str]:
        """Why a precision cannot be run here, for each that cannot."""

    def profile(self, product: Product) -> Profile:
        """A profile of one launch or a few."""

    def run(self, product: Product) -> Sequence[Mark]:
        """Run a product for its time; returns two marks at least, in order."""

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
        """Every window of a GPU that has a part of this time, in order; waits for the last of them.

        Raises OfuError when the GPU is not measured any more.
        """

    def close(self) -> None:
        """Stop sampling. Never raises."""
