"""What a right MFU is of the OFU of the same seconds, in jobs whose reports are right.

OFU counts every cycle of the tensor pipes. Tiles, the backward pass of attention, which computes its scores again, and
NVML's clock are in it and in no MFU. How much that is was measured on an H100, and on an H200 beside a clock that was a
tenth too high (docs/hardware.md, tests/measured/h100-training.json, h100-products.json and h200-honest.json); of other
cards and precisions only that it is no more than the recomputation of all layers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class HonestRatio(NamedTuple):
    """Right MFU over OFU, from and to."""

    low: float
    high: float
    usual: float | None = None
    """What training has; None = not measured."""


NOT_MEASURED = HonestRatio(0.83, 1.0)
"""A card or a precision that nobody has measured."""
HOPPER = ("H100-SXM5-80GB", "H100-SXM5-96GB", "H200-SXM")
MEASURED = {
    "bf16": HonestRatio(0.86, 0.97, 0.90),
    "fp16": HonestRatio(0.86, 0.97, 0.90),
    "tf32": HonestRatio(0.70, 1.0, 0.76),
}
"""With a true clock. Training in BF16, and FP16, which runs on the same instructions; in TF32 attention runs on
Ampere's, and products alone have 1.0."""


def honest_ratio(card: str | None, precisions: Collection[str] | None) -> HonestRatio:
    """The ratio of a card, by the key of its row, and of the precisions of its math; None = not known."""
    if card not in HOPPER or precisions is None or len(precisions) != 1:
        return NOT_MEASURED
    return MEASURED.get(next(iter(precisions)), NOT_MEASURED)
