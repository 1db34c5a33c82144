"""Draws matrix products and the kernels that run them, so that the MFU behind a simulated OFU is known.

As in arXiv:2605.20799, section V-A, each side is a random multiple of 16. Of the kernels that are drawn for a
product, the one with the fewest executed FLOPs runs it, as a library would choose.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.sources.simulate.driver import GEMM_CLOCK_HZ, GEMM_CLOCK_STD_HZ, LoadPhase
from ofu_exporter.traces import kernel_names

KERNELS = (
    "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
    "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN",
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
    "nvjet_sm90_tst_256x160_64x4_2x1_v_bz_coopA_TNT",
    "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT",
)
"""BF16 kernels of Hopper, as profilers show them."""
STEP, SMALLEST, LARGEST = 16, 512, 8192
CHOICES = 2


@dataclass(frozen=True, slots=True)
class Loop:
    """One product, run again and again."""

    kernel: str
    gemm: Gemm
    seconds: float
    tensor_active: float

    @property
    def executed_flops(self) -> int:
        """FLOPs that each launch executes."""
        return kernel_names.parse(self.kernel).executed_flops(self.gemm)

    @property
    def useful_share(self) -> float:
        """Share of the executed FLOPs that is not in the unfilled parts of tiles."""
        return self.gemm.theoretical_flops / self.executed_flops

    @property
    def phase(self) -> LoadPhase:
        """The load that it is to a simulated GPU."""
        return LoadPhase(
            self.seconds,
            self.tensor_active,
            GEMM_CLOCK_HZ,
            GEMM_CLOCK_STD_HZ,
            useful_share=self.useful_share,
        )


def draw(source: random.Random, number: int) -> tuple[Loop, ...]:
    """Loops of some seconds each, one after the other."""
    return tuple(_loop(source) for _ in range(number))


def _loop(source: random.Random) -> Loop:
    gemm = Gemm(*(source.randrange(SMALLEST, LARGEST + STEP, STEP) for _ in range(3)))
    offered = source.sample(KERNELS, CHOICES)
    kernel = min(offered, key=lambda name: kernel_names.parse(name).executed_flops(gemm))
    # Whole tenths of a second, the simulation's steps, so that a loop has exactly its stated length.
    return Loop(kernel, gemm, source.randint(10, 40) / 10, source.uniform(0.55, 0.92))
