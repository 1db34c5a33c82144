"""What real training runs besides the FLOPs of its model, in every honest job: nothing that a report could get wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.flops.causes import Cause, CauseFacts, Hypothesis, Side

SLUG = "tile_quantization"
WORST = 0.12
"""The most that large models run besides their FLOPs. On an H100 it was 7 to 12 % of real training (docs/hardware.md):
tiles 2, attention that computes its scores again 3, the clock the rest. Matrix products alone have 0 to 2."""
REST = 0.09
"""The same without tiles."""


def real_work(facts: CauseFacts) -> tuple[float, float]:
    """Right MFU over OFU of an honest job, from and to."""
    least = facts.tile_overhead or 0.0
    most = WORST
    if facts.tile_overhead is not None:
        most = (1 + least) * (1 + REST) - 1
    if facts.tile_overhead_bound == "lower":
        most = max(WORST, most)
    return 1 / (1 + most), 1 / (1 + least)


def _real_work(facts: CauseFacts) -> Iterator[Hypothesis]:
    low, high = real_work(facts)
    yield Hypothesis(
        "real training runs up to "
        f"{1 / low - 1:.0%} more than its model needs, in tiles, in the backward pass of attention and through the clock",
        high,
        low,
    )


CAUSES = (
    Cause(
        SLUG,
        Side.HARDWARE,
        1.0,
        _real_work,
        ("tile_overhead",),
        meaning="tiles, the backward pass of attention and the clock, which no MFU counts",
    ),
)
