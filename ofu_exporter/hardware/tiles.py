"""Computes the FLOPs of a matrix product in whole tiles, whose sizes are part of the kernel's name.

Sides are in the kernel's own order, cuBLAS' column-major one: of a row-major product C[M, N], as torch has it,
the kernel's m is N and its n is M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ofu_exporter.errors import ConfigError
from ofu_exporter.values.reported import Bound

LARGEST_SIDE = 1 << 40
"""Largest side of a product; no memory holds one with a longer side."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """`batch` products of m*k with k*n. A product with a side of 0 is empty: an expert that no token was sent to."""

    m: int
    n: int
    k: int
    batch: int = 1

    def __post_init__(self) -> None:
        for side in ("m", "n", "k", "batch"):
            value = getattr(self, side)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not is_whole or not 0 <= value <= LARGEST_SIDE:
                raise ConfigError(
                    f"{side}: {value!r} is not a whole number from 0 to {LARGEST_SIDE}"
                )

    @property
    def theoretical_flops(self) -> int:
        """FLOPs of the product itself, two per multiply-add."""
        return 2 * self.m * self.n * self.k * self.batch


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the name of a kernel says. None = it does not say."""

    family: str
    architecture: str | None
    """Such as `sm90`."""
    precision: str | None
    """One of `gpu_spec.PRECISIONS`, in which the products are computed."""
    tile: tuple[int, int, int | None]
    """Sides of the part of C that one cluster member computes, m and n, and the step along K."""
    stages: int | None = None
    cluster: tuple[int, int] | None = None
    """Tiles of one cluster along m and n."""
    unknown: tuple[str, ...] = ()
    """Why the counted FLOPs are a lower bound; empty where they are exact."""
    products: int = 1
    """Tensor products per product: emulation runs several in a narrower precision."""

    @property
    def bound(self) -> Bound:
        return "lower" if self.unknown else "exact"

    def effective(self, gemm: Gemm) -> tuple[int, int, int]:
        """The sides that the hardware computes: whole tiles, and m and n whole clusters of them.

        arXiv:2605.20799, eq. 3 and 4. A side that the name does not carry is not rounded.
        """
        tile_m, tile_n, tile_k = self.tile
        cluster_m, cluster_n = self.cluster or (1, 1)
        return (
            _up(_up(gemm.m, tile_m), tile_m * cluster_m),
            _up(_up(gemm.n, tile_n), tile_n * cluster_n),
            _up(gemm.k, tile_k or 1),
        )

    def executed_flops(self, gemm: Gemm) -> int:
        """FLOPs that the tensor pipes run for one product; each product of a batch is rounded up by itself."""
        m, n, k = self.effective(gemm)
        return 2 * m * n * k * gemm.batch * self.products


@dataclass(frozen=True, slots=True)
class Cost:
    """The FLOPs that one launch executes, and those that its products need."""

    effective: tuple[tuple[int, int, int], ...]
    """The sides that the hardware computes, of each group."""
    executed_flops: int
    theoretical_flops: int
    bound: Bound

    @property
    def overhead_ratio(self) -> float:
        """Executed over theoretical FLOPs, minus 1 (arXiv:2605.20799, eq. 2)."""
        return (self.executed_flops - self.theoretical_flops) / self.theoretical_flops


def cost(kernel: Kernel, gemms: Sequence[Gemm]) -> Cost:
    """The cost of one launch: of one product, or of the groups of a grouped product.

    Raises ConfigError when there is nothing to multiply.
    """
    theoretical = sum(gemm.theoretical_flops for gemm in gemms)
    if not theoretical:
        raise ConfigError("the product has no FLOPs: one of its sides is 0")
    return Cost(
        tuple(kernel.effective(gemm) for gemm in gemms),
        sum(kernel.executed_flops(gemm) for gemm in gemms),
        theoretical,
        kernel.bound,
    )


def adjusted_utilization(utilization: float, overhead_ratio: float) -> float:
    """OFU without what tiles add (arXiv:2605.20799, eq. 8); both are ratios."""
    return utilization / (1 + overhead_ratio)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
