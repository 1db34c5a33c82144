"""The cause in the tiles: matrices are multiplied in blocks of fixed size, and the last of a row may not be full."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.flops.causes import Cause, CauseFacts, Hypothesis, Side

WORST = 0.12
"""The most that shapes of large models lose (arXiv:2605.20799, section IV-A); small matrices lose half."""


def _tiles(facts: CauseFacts) -> Iterator[Hypothesis]:
    if facts.tile_overhead is None:
        yield Hypothesis(
            f"tiles may add up to {WORST:.0%} of FLOPs where shapes do not fit them",
            1.0,
            1 / (1 + WORST),
        )
    elif facts.tile_overhead_bound == "lower":
        worst = max(WORST, facts.tile_overhead)
        yield Hypothesis(
            f"tiles add at least {facts.tile_overhead:.1%} of FLOPs, and up to {worst:.0%} are usual",
            1 / (1 + facts.tile_overhead),
            1 / (1 + worst),
        )
    elif facts.tile_overhead > 0:
        yield Hypothesis(
            f"tiles add {facts.tile_overhead:.1%} of FLOPs, which the hardware runs",
            1 / (1 + facts.tile_overhead),
            rarity=0.0,
        )


CAUSES = (
    Cause(
        "tile_quantization",
        Side.HARDWARE,
        2.0,
        _tiles,
        meaning="tiles add FLOPs where shapes do not fit them, which MFU rightly leaves out",
    ),
)
