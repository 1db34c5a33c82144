"""What holds the SM clock below its highest, as NVIDIA's driver says."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class ClockLimit(str, Enum):
    """One of NVML's clocks event reasons (nvml.h, nvmlClocksEventReasons)."""

    GPU_IDLE = "gpu_idle"
    APPLICATIONS_CLOCKS = "applications_clocks"
    SW_POWER_CAP = "sw_power_cap"
    HW_SLOWDOWN = "hw_slowdown"
    SYNC_BOOST = "sync_boost"
    SW_THERMAL = "sw_thermal"
    HW_THERMAL = "hw_thermal"
    HW_POWER_BRAKE = "hw_power_brake"
    DISPLAY_CLOCK = "display_clock"

    @property
    def words(self) -> str:
        """The name of the limit in plain words."""
        return WORDS[self]

    @property
    def advice(self) -> str:
        """What to do about it; "" if it is normal."""
        return ADVICE.get(self, "")


WORDS = {
    ClockLimit.GPU_IDLE: "idle",
    ClockLimit.APPLICATIONS_CLOCKS: "set clock",
    ClockLimit.SW_POWER_CAP: "power cap",
    ClockLimit.HW_SLOWDOWN: "hardware slowdown",
    ClockLimit.SYNC_BOOST: "sync boost",
    ClockLimit.SW_THERMAL: "too warm",
    ClockLimit.HW_THERMAL: "too hot",
    ClockLimit.HW_POWER_BRAKE: "power brake",
    ClockLimit.DISPLAY_CLOCK: "display clock",
}
ADVICE = {
    ClockLimit.HW_SLOWDOWN: "The GPU's hardware has slowed it down by half or more: check its temperature and power.",
    ClockLimit.SW_THERMAL: "The GPU or its memory is too warm: check the cooling of the node.",
    ClockLimit.HW_THERMAL: "The GPU is so hot that its hardware slows it down: check the cooling at once.",
    ClockLimit.HW_POWER_BRAKE: "Something outside the GPU limits its power: check the power supplies.",
}


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
