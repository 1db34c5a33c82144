"""What holds the SM clock below its highest, as NVIDIA's driver says."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class ClockLimit(str, Enum):
    """One of NVML's clocks event reasons (nvml.h, nvmlClocksEventReasons)."""

    _value_: str
    words: str
    """The name of the limit in plain words."""
    advice: str
    """What to do about it; "" if it is normal."""

    def __new__(cls, limit: str, words: str, advice: str = "") -> ClockLimit:
        member = str.__new__(cls, limit)
        member._value_, member.words, member.advice = limit, words, advice
        return member

    GPU_IDLE = "gpu_idle", "idle"
    APPLICATIONS_CLOCKS = "applications_clocks", "set clock"
    SW_POWER_CAP = "sw_power_cap", "power cap"
    HW_SLOWDOWN = (
        "hw_slowdown",
        "hardware slowdown",
        "The GPU's hardware has slowed it down by half or more: check its temperature and power.",
    )
    SYNC_BOOST = "sync_boost", "sync boost"
    SW_THERMAL = (
        "sw_thermal",
        "too warm",
        "The GPU or its memory is too warm: check the cooling of the node.",
    )
    HW_THERMAL = (
        "hw_thermal",
        "too hot",
        "The GPU is so hot that its hardware slows it down: check the cooling at once.",
    )
    HW_POWER_BRAKE = (
        "hw_power_brake",
        "power brake",
        "Something outside the GPU limits its power: check the power supplies.",
    )
    DISPLAY_CLOCK = "display_clock", "display clock"
    BOARD_LIMIT = "board_limit", "board limit"
    RELIABILITY = "reliability", "reliability limit"


def known_limits(names: Iterable[str] | None) -> tuple[ClockLimit, ...] | None:
    """The limits with these names; an unknown name of a later version is left out."""
    if names is None:
        return None
    return tuple(limit for name in names for limit in ClockLimit if limit.value == name)


def limit_words(limits: tuple[ClockLimit, ...] | None) -> str:
    """What holds the clock down, in words; "" if nothing does or the source does not say."""
    if not limits:
        return ""
    causes = {ClockLimit.HW_THERMAL, ClockLimit.HW_POWER_BRAKE} & {*limits}
    # The driver reports the hardware slowdown together with its cause, so only the cause is shown.
    return ", ".join(
        limit.words for limit in limits if limit is not ClockLimit.HW_SLOWDOWN or not causes
    )
