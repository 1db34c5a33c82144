"""Bounds what the time without tensor work was about, from counters whose overlap is unknown: pure.

A resource was busy for a share b of a window, and no_tensor took a share n of it. How much of b fell into n nobody
counted: at least b minus all the other time, at most b or n. This is the closed form of the linear programme
"x + y = b, 0 <= x <= n, 0 <= y <= the rest". Other arithmetic needs a warp, so its other time is the tensor time only.

Busy means busy at the rated speed: memory by the card's own counter, links by their bytes over their rated peak. Time
in which a communication kernel waits for its peers moves no bytes, so it is in none of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ofu_exporter.values.gpu import LinkPeaks
from ofu_exporter.values.losses import Bounds, Cause, CauseBounds
from ofu_exporter.values.reading import Activity


def bounds(
    no_tensor: float | None, tensor_active: float, activity: Activity, links: LinkPeaks | None
) -> CauseBounds:
    """The smallest and largest share of the window that each cause may have in `no_tensor`; empty without that part."""
    if no_tensor is None:
        return {}
    rest = 1.0 - no_tensor
    found = {
        Cause.MEMORY: _inside(_together([activity.dram]), no_tensor, rest),
        Cause.LINKS: _inside(_together(_links(activity, links)), no_tensor, rest),
        Cause.ARITHMETIC: _inside(_together(_pipes(activity)), no_tensor, tensor_active),
    }
    known = math.fsum(each.highest for each in found.values())
    surest = max(each.lowest for each in found.values())
    return {**found, Cause.NONE: Bounds(max(0.0, no_tensor - known), no_tensor - surest)}


def _together(shares: Sequence[float | None]) -> Bounds:
    """For how long some things that may overlap were busy in all."""
    known = [min(share, 1.0) for share in shares if share is not None]
    if len(known) < len(shares):
        return Bounds(max(known, default=0.0), 1.0)
    return Bounds(max(known, default=0.0), min(math.fsum(known), 1.0))


def _inside(busy: Bounds, no_tensor: float, elsewhere: float) -> Bounds:
    return Bounds(max(0.0, busy.lowest - elsewhere), min(busy.highest, no_tensor))


def _links(activity: Activity, links: LinkPeaks | None) -> list[float | None]:
    """How busy each direction of the links was. A model without NVLink has only PCIe."""
    if links is None:
        return [None]
    pcie = [_over(each, links.pcie) for each in (activity.pcie_sent, activity.pcie_received)]
    if not links.nvlink:
        return pcie
    nvlink = (activity.nvlink_sent, activity.nvlink_received)
    return [*pcie, *(_over(each, links.nvlink) for each in nvlink)]


def _over(rate: float | None, peak: float) -> float | None:
    return None if rate is None else rate / peak


def _pipes(activity: Activity) -> list[float | None]:
    return [activity.fp64, activity.fp32, activity.fp16, activity.integer]


def in_seconds(shares: CauseBounds, gpu_seconds: float) -> CauseBounds:
    """Bounds of shares as bounds of GPU-seconds. Sums of these are bounds of the sum."""
    return {
        cause: Bounds(lowest * gpu_seconds, highest * gpu_seconds)
        for cause, (lowest, highest) in shares.items()
    }


def named(causes: CauseBounds) -> Cause | None:
    """The cause that is certainly the largest: its lowest is above every other's highest. None = cannot be told."""
    for cause, (lowest, _) in causes.items():
        others = [each.highest for other, each in causes.items() if other is not cause]
        if lowest > max(others, default=0.0):
            return None if cause is Cause.NONE else cause
    return None
