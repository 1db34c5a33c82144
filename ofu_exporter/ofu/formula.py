"""The formulas of Overall FLOP Utilization from counters, and nothing else.

Every number is a float in base units; a ratio is 0..1. Sources are equations of "Instant GPU
Efficiency Visibility at Fleet Scale" (arXiv:2605.20799), called "the paper" below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ofu_exporter.values.gpu import FP64, LOW_PRECISION

FP64_PIPES = ("dfma", "dmma")
"""The pipes whose cycles belong to the FP64 domain. An H100 counts FP64 products as DFMA alone (docs/hardware.md)."""


def utilization(tensor_active: float, sm_clock_hz: float, tensor_clock_hz: float) -> float:
    """OFU of a window in which one clock domain was busy (the paper, eq. 1 and 11).

    `tensor_active` counts cycles, a peak is per second: the ratio of the clocks converts. The
    result is above `tensor_active` when the clock ran above the tensor clock; it is never clamped.
    """
    return tensor_active * sm_clock_hz / tensor_clock_hz


def activity_by_domain(tensor_active: float, pipes: Mapping[str, float]) -> dict[str, float]:
    """Split tensor pipe activity over the clock domains.

    The any-tensor counter is the total: what the FP64 pipes do not explain is low precision, so
    that a pipe without a counter of its own is not lost and a cycle in which two pipes were busy
    is not counted twice. The FP64 part is never more than the total.
    """
    fp64 = min(sum(pipes.get(pipe, 0.0) for pipe in FP64_PIPES), tensor_active)
    return {LOW_PRECISION: tensor_active - fp64, FP64: fp64}


def utilization_over_domains(
    activity: Mapping[str, float], sm_clock_hz: float, tensor_clock_hz: Mapping[str, float]
) -> float:
    """OFU when several clock domains were busy in one window: the sum over the domains."""
    low_hz = tensor_clock_hz[LOW_PRECISION]
    return math.fsum(
        [
            utilization(active, sm_clock_hz, tensor_clock_hz.get(domain, low_hz))
            for domain, active in activity.items()
        ]
    )
