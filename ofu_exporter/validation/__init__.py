"""How near OFU is to the MFU of products whose FLOPs are known, on the card at hand: the words of it.

A machine runs a product again and again and says how often; a watch is the agent's own sampler beside it. The time
in which both are known is compared, as in arXiv:2605.20799, section V-A.
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
    """Operands of zeros need less power, so that the clock stays high."""

    @property
    def gemm(self) -> Gemm:
        """In the kernel's order: of a row-major product m and n change places."""
        return Gemm(self.n, self.m, self.k)

    @property
    def flops(self) -> int:
        """Theoretical ones, of one launch."""
        return self.gemm.theoretical_flops


class Mark(NamedTuple):
    """So many launches had ended by then."""

    at: float
    """Seconds, on the monotonic clock of the readings."""
    launches: float


@dataclass(frozen=True, slots=True)
class Tiling:
    """What tiles add to one product, as its kernels' names tell."""

    overhead_ratio: float | None
    """None = the names do not tell."""
    bound: Bound
    attributed_share: float
    """Of the time in tensor kernels: what the overhead is of."""
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """One product that was run, with all that was seen of it."""

    product: Product
    marks: tuple[Mark, ...]
    readings: tuple[Reading, ...]
    tiling: Tiling


class Machine(Protocol):
    """What runs products on one GPU."""

    @property
    def simulated(self) -> bool:
        """True when no GPU runs anything."""

    @property
    def uuid(self) -> str:
        """Of the GPU, as the agent's sources name it."""

    @property
    def software(self) -> Mapping[str, str]:
        """Versions of what runs the products."""

    def refusals(self, precisions: Sequence[str]) -> Mapping[str, str]:
        """Why a precision cannot be run here; without those that can."""

    def profile(self, product: Product) -> Profile:
        """What a profiler saw of one launch or a few."""

    def run(self, product: Product) -> Sequence[Mark]:
        """Run it for as long as it says; two marks at least, in order."""

    def close(self) -> None:
        """Let go of the GPU. Never raises."""


class Watch(Protocol):
    """The agent's sampler."""

    @property
    def source(self) -> str:
        """The source that it reads; "" until a GPU was read."""

    @property
    def simulated(self) -> bool:
        """True when what it reads was made up."""

    def gpu(self, uuid: str) -> Gpu:
        """The GPU of a machine. Raises OfuError when it is not measured."""

    def readings(self, uuid: str, since: float, until: float) -> Sequence[Reading]:
        """Every window of a GPU that has a part of this time, in order; waits for the last of them.

        Raises OfuError when the GPU is not measured any more.
        """

    def close(self) -> None:
        """Stop sampling. Never raises."""
