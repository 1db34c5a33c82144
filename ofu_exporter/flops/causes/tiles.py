"""The cause in what every honest job runs besides the FLOPs of its model: tiles, attention again, and the clock."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.flops.causes import CauseFacts, Hypothesis, Side, cause

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


@cause(1.0, needs=("tile_overhead",), shown_ratio="down to 0.89, or as given", side=Side.HARDWARE)
def tile_quantization(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Tiles, the backward pass of attention and the clock, which no MFU counts."""
    low, high = real_work(facts)
    most = f"real training shows an OFU up to {1 / low - 1:.0%} above its MFU"
    yield Hypothesis(f"{most}: {tile_quantization.meaning}", high, low)
