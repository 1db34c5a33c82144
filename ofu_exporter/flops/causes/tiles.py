"""The cause in what every honest job runs besides the FLOPs of its model: tiles, attention again, and the clock."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.flops.causes import CauseFacts, Hypothesis, MfuCause, Side

SLUG = "tile_quantization"
WORST = 0.12
"""The most that large models run besides their FLOPs. On an H100 it was 7 to 12 % of real training (docs/hardware.md):
tiles 2, attention that computes its scores again 3, the clock the rest. Matrix products alone have 0 to 2."""
REST = 0.09
"""The same without tiles, where these are known exactly."""


def real_work(facts: CauseFacts) -> tuple[float, float]:
    """Right MFU over OFU of an honest job, from and to."""
    tiles = 1 + (facts.tile_overhead or 0.0)
    are_tiles_known = facts.tile_overhead is not None and facts.tile_overhead_bound != "lower"
    rest = 1 + (REST if are_tiles_known else WORST)
    return 1 / (tiles * rest), 1 / tiles


def _real_work(facts: CauseFacts) -> Iterator[Hypothesis]:
    low, high = real_work(facts)
    yield Hypothesis(
        f"real training shows an OFU up to {1 / low - 1:.0%} above its MFU: tiles, the backward pass of attention and "
        "the clock, which no MFU counts",
        high,
        low,
    )


CAUSES = (
    MfuCause(
        SLUG,
        1.0,
        _real_work,
        ("tile_overhead",),
        side=Side.HARDWARE,
        shown_ratio="down to 0.89, or as given",
        meaning="tiles, the backward pass of attention and the clock, which no MFU counts",
    ),
)
