"""Bounds what the time without tensor work was about, from counters whose overlap is unknown: pure.

A resource was busy for a share b of a window, and no_tensor took a share n of it. How much of b fell into n nobody
counted: at least b minus all the other time, at most b or n. This is the closed form of the linear programme
"x + y = b, 0 <= x <= n, 0 <= y <= the rest". Other arithmetic needs a warp, so its other time is the tensor time only.

Busy means busy at the rated speed: memory by the card's own counter, links by their bytes over their rated peak. Time
in which a communication kernel waits for its peers moves no bytes, so it is in none of these.
"""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.values.gpu import LinkPeaks
from ofu_exporter.values.losses import Bottleneck, BottleneckBounds, Bounds
from ofu_exporter.values.reading import Activity, Window


def bounds(
    no_tensor_seconds: float | None, window: Window, activity: Activity, links: LinkPeaks | None
) -> BottleneckBounds:
    """The fewest and the most GPU-seconds of `no_tensor` that each bottleneck may have; empty where there are none.

    Sums of these bounds are bounds of the sum.
    """
    if not no_tensor_seconds:
        return {}
    whole = window.gpu_seconds
    tensor = (window.tensor_active or 0.0) * whole
    rest = whole - no_tensor_seconds
    busy = (
        (Bottleneck.MEMORY, (activity.dram,), rest),
        (Bottleneck.LINKS, _links(activity, links), rest),
        (Bottleneck.ARITHMETIC, _pipes(activity), tensor),
    )
    by_bottleneck, highest_sum, surest = {}, 0.0, 0.0
    for bottleneck, shares, elsewhere in busy:
        least, most = _together(shares)
        lowest = min(max(0.0, least * whole - elsewhere), no_tensor_seconds)
        highest = min(most * whole, no_tensor_seconds)
        by_bottleneck[bottleneck] = Bounds(lowest, highest)
        highest_sum += highest
        surest = max(surest, lowest)
    unexplained = max(0.0, no_tensor_seconds - highest_sum)
    by_bottleneck[Bottleneck.NONE] = Bounds(unexplained, no_tensor_seconds - surest)
    return by_bottleneck


def _together(shares: Sequence[float | None]) -> Bounds:
    """For which share some things that may overlap were busy in all; 1 or more may be all of the time."""
    least = total = 0.0
    for share in shares:
        if share is None:
            total = 1.0
        else:
            least = max(least, share)
            total += share
    return Bounds(least, total)


def _links(activity: Activity, links: LinkPeaks | None) -> tuple[float | None, ...]:
    """How busy each direction of the links was. A model without NVLink has only PCIe."""
    if links is None:
        return (None,)
    pcie = (_over(activity.pcie_sent, links.pcie), _over(activity.pcie_received, links.pcie))
    if not links.nvlink:
        return pcie
    return (
        *pcie,
        _over(activity.nvlink_sent, links.nvlink),
        _over(activity.nvlink_received, links.nvlink),
    )


def _pipes(activity: Activity) -> tuple[float | None, ...]:
    return (activity.fp64, activity.fp32, activity.fp16, activity.integer)


def _over(rate: float | None, peak: float) -> float | None:
    return None if rate is None else rate / peak


def certain_bottleneck(all_bounds: BottleneckBounds) -> Bottleneck | None:
    """The one that is certainly the largest: its lowest is above every other's highest. None = cannot be told."""
    for bottleneck, (lowest, _) in all_bounds.items():
        others = [each.highest for other, each in all_bounds.items() if other is not bottleneck]
        if lowest > max(others, default=0.0):
            return None if bottleneck is Bottleneck.NONE else bottleneck
    return None
