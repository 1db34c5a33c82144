"""Splits the peak of a window into what was used and where the rest went: pure, exact and never a guess.

With GR = share of time in which the engine was busy, SM = SM activity and TPA = tensor activity of the same seconds,

    1 = OFU + (TPA - OFU) + (SM - TPA) + (GR - SM) + (1 - GR)
        used  clock         no_tensor    empty_sms   idle

because a tensor instruction needs a resident warp, and a warp a busy engine. A counter that is missing merges the two
parts that it would tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ofu_exporter.ofu import bottlenecks
from ofu_exporter.values.gpu import LinkPeaks
from ofu_exporter.values.losses import Loss, Losses, LossSums, MemorySums
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS, MAX_RATIO, RATIOS, Activity, Window
from ofu_exporter.values.reasons import Rejection

ROUNDING = 0.01
"""Two counters may contradict each other by this much: some are whole percents."""
GRAIN_SECONDS = 2.0**-30
"""Sums are whole multiples of this nanosecond. So floats add them without any rounding, in any order, for the first
97 days of GPU time, and parts add up to the whole exactly."""
MOST_BYTES_PER_SECOND = 1e14
MOST_JOULES = 10e3 * LONGEST_WINDOW_SECONDS
"""No link is faster, and no GPU draws 10 kW: such a value is another field's."""
_MOST = tuple(
    MAX_RATIO
    if name in RATIOS
    else MOST_JOULES
    if name == "energy_joules"
    else MOST_BYTES_PER_SECOND
    for name in Activity._fields
)


def believable(activity: Activity, tensor_active: float) -> tuple[Activity, list[Rejection]]:
    """The values that can be true beside this tensor activity, and a rejection for each that cannot.

    Where only engine and SMs contradict each other, neither is believed.
    """
    possible, refused = _possible(activity)
    engine, sm = possible.engine, possible.sm
    if sm is not None and sm < tensor_active - ROUNDING:
        sm = None
        refused.append(Rejection.SM_BELOW_TENSOR)
    if engine is not None and engine < max(tensor_active, sm or 0.0) - ROUNDING:
        sm = sm if engine < tensor_active - ROUNDING else None
        engine = None
        refused.append(Rejection.ENGINE_BELOW_SM)
    return (possible._replace(engine=engine, sm=sm) if refused else possible), refused


def _possible(activity: Activity) -> tuple[Activity, list[Rejection]]:
    wrong = [
        place
        for place, (value, most) in enumerate(zip(activity, _MOST, strict=True))
        if value is not None and not 0.0 <= value <= most
    ]
    if not wrong:
        return activity, []
    refused = [
        Rejection.ACTIVITY_OUT_OF_RANGE
        if math.isfinite(activity[place] or 0.0)
        else Rejection.NOT_A_NUMBER
        for place in wrong
    ]
    return activity._replace(**{Activity._fields[place]: None for place in wrong}), refused


def losses(utilization: float, tensor_active: float, activity: Activity) -> Losses:
    """Where the rest of the peak went, as shares of the window: with the OFU they add up to 1.

    `activity` is believable. Where two counters cross by their rounding, the part between them is 0.
    """
    tensor = min(tensor_active, 1.0)
    parts = {Loss.CLOCK: tensor - utilization}
    before = tensor
    for loss, until in _bounds(activity):
        level = min(max(until, before), 1.0)
        parts[loss], before = level - before, level
    return parts


def _bounds(activity: Activity) -> Iterator[tuple[Loss, float]]:
    """The parts above the tensor activity, each with the counter that ends it."""
    engine, sm = activity.engine, activity.sm
    if sm is not None:
        yield Loss.NO_TENSOR, sm
    if engine is not None:
        yield Loss.ENGINE_WITHOUT_TENSOR if sm is None else Loss.EMPTY_SMS, engine
        yield Loss.IDLE, 1.0
    else:
        yield Loss.WITHOUT_TENSOR if sm is None else Loss.EMPTY_OR_IDLE, 1.0


def split(
    window: Window, links: LinkPeaks | None, memory_bytes_per_second: float | None = None
) -> tuple[Window, list[Rejection]]:
    """The window with its losses and with what it adds to sums, and what of its activity was not believed."""
    if window.utilization is None or window.tensor_active is None:
        return window, []
    activity, refused = believable(window.activity, window.tensor_active)
    lost = losses(window.utilization, window.tensor_active, activity)
    used, observed, seconds = _whole_grains(window.utilization, lost, window.gpu_seconds)
    clock = seconds[Loss.CLOCK]
    seconds[Loss.CLOCK] = max(clock, 0.0)
    energy, engine = activity.energy_joules, activity.engine
    idle = None if energy is None or engine is None else energy if engine < ROUNDING else 0.0
    sums = LossSums(
        lost=seconds,
        gained=max(-clock, 0.0),
        bottlenecks=bottlenecks.bounds(seconds.get(Loss.NO_TENSOR), window, activity, links),
        energy_joules=energy,
        idle_energy_joules=idle,
        memory=_memory(activity.dram, window.gpu_seconds, memory_bytes_per_second),
    )
    split_window = window._replace(
        activity=activity, losses=lost, used_seconds=used, observed_seconds=observed, sums=sums
    )
    return split_window, refused


def _memory(
    dram: float | None, gpu_seconds: float, bytes_per_second: float | None
) -> MemorySums | None:
    if dram is None:
        return None
    busy = dram * gpu_seconds
    return MemorySums(busy, gpu_seconds, bytes_per_second and busy * bytes_per_second)


def _whole_grains(
    utilization: float, lost: Losses, gpu_seconds: float
) -> tuple[float, float, dict[Loss, float]]:
    """The used, the observed and the lost GPU-seconds, in whole grains that add up exactly.

    The bounds between the parts are rounded, not the parts.
    """
    used = before = _rounded(utilization * gpu_seconds)
    level, seconds = utilization, {}
    for loss, share in lost.items():
        level += share
        until = _rounded(level * gpu_seconds)
        seconds[loss], before = until - before, until
    return used, before, seconds


def _rounded(seconds: float) -> float:
    return round(seconds / GRAIN_SECONDS) * GRAIN_SECONDS
