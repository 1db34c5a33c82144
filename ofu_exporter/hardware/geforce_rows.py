"""The rows of GeForce cards whose data is NVIDIA's comparison page: CUDA cores, boost clock and AI TOPS.

AI TOPS are those of the fastest tensor instructions, with 2:4 sparsity: INT8 on Ada, 8 times dense BF16 with 32-bit
accumulation, and FP4 on Blackwell, 16 times. The page has none for Ampere: there the peak is computed from the rate of
the chip, which NVIDIA's GA102 white paper has for RTX 3080 and 3090.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ofu_exporter.hardware.gpu_rows import ADA_GEFORCE, AMPERE_GEFORCE, BLACKWELL_GEFORCE, tflops
from ofu_exporter.hardware.gpu_spec import Chip, GpuModel

_AI_TOPS_PER_BF16 = {ADA_GEFORCE.arch: 8, BLACKWELL_GEFORCE.arch: 16}
_PAGE = "NVIDIA's comparison page: cores, clock"


class _Card(NamedTuple):
    """What the page says of a card, and what GPU databases add."""

    model: str
    chip: Chip
    ids: str
    sms: int
    mhz: int
    """The boost clock, of GPU databases where the page rounds it."""
    gib: tuple[int, ...]
    ai_tops: int = 0

    def row(self) -> GpuModel:
        published = {}
        if self.ai_tops:
            published = tflops(bf16=self.ai_tops / _AI_TOPS_PER_BF16[self.chip.arch])
        return GpuModel(
            f"RTX-{self.model.replace(' ', '-')}",
            self.chip,
            (f"NVIDIA GeForce RTX {self.model}",),
            tuple(self.ids.split()),
            self.sms,
            self.mhz * 1e6,
            memory_gib=self.gib,
            published_peak_flops=published,
            source=f"{_PAGE} and AI TOPS" if self.ai_tops else f"{_PAGE}; peak computed",
            confidence="high" if self.ai_tops else "medium",
        )


# fmt: off
_CARDS: Final = (
    _Card("3060", AMPERE_GEFORCE, "2487 24c7 2503 2504 2544", 28, 1777, (8, 12)),
    _Card("3060 Ti", AMPERE_GEFORCE, "2414 2486 2489 24c9", 38, 1665, (8,)),
    _Card("3070", AMPERE_GEFORCE, "2484 2488", 46, 1725, (8,)),
    _Card("3070 Ti", AMPERE_GEFORCE, "2207 2482", 48, 1770, (8,)),
    _Card("3080 Ti", AMPERE_GEFORCE, "2208", 80, 1665, (12,)),
    _Card("4060", ADA_GEFORCE, "2808 2882", 24, 2460, (8,), 242),
    _Card("4060 Ti", ADA_GEFORCE, "2788 2803 2805", 34, 2535, (8, 16), 353),
    _Card("4070", ADA_GEFORCE, "2709 2786", 46, 2475, (12,), 466),
    _Card("4070 SUPER", ADA_GEFORCE, "2783", 56, 2475, (12,), 568),
    _Card("4070 Ti", ADA_GEFORCE, "2782", 60, 2610, (12,), 641),
    _Card("4070 Ti SUPER", ADA_GEFORCE, "2689 2705", 66, 2610, (16,), 706),
    _Card("5050", BLACKWELL_GEFORCE, "2d83", 20, 2572, (8,), 421),
    _Card("5060", BLACKWELL_GEFORCE, "2d05", 30, 2497, (8,), 614),
    _Card("5060 Ti", BLACKWELL_GEFORCE, "2d04", 36, 2572, (8, 16), 759),
    _Card("5070", BLACKWELL_GEFORCE, "2f04", 48, 2512, (12,), 988),
)
# fmt: on

GEFORCE_ROWS: Final[tuple[GpuModel, ...]] = tuple(card.row() for card in _CARDS)
