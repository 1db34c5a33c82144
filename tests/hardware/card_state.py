"""Reads at one instant everything by which NVML might tell that the clock that it names is not the true one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pynvml

from tests.hardware.counters import asked

FIELDS: Mapping[str, int] = {
    "power_average_mw": 185,
    "power_instant_mw": 186,
    "power_limit_mw": 190,
    "sw_power_cap_ns": 74,
    "sync_boost_ns": 76,
    "sw_thermal_ns": 269,
    "hw_thermal_ns": 270,
    "hw_power_brake_ns": 271,
    **{f"policy_{number}_ns": number for number in (75, 77, 78, 79, 80, 81)},
}
"""NVML_FI_DEV_POWER_..., NVML_FI_DEV_CLOCKS_EVENT_REASON_... and NVML_FI_DEV_PERF_POLICY_... of nvml.h."""
POLICIES = {"power": 0, "thermal": 1, "sync_boost": 2, "board_limit": 3, "low_utilization": 4}
POLICIES |= {"reliability": 5, "app_clocks": 10, "base_clocks": 11}
"""nvmlPerfPolicyType_t."""
VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Where a field's value is, by its type."""
GRAPHICS, SM, MEMORY = 0, 1, 2
Number = float | int | None


class CardState:
    """What of it this card answers is found out once; `names` are the columns of `read`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._calls = {
            name: call for name, call in _calls(handle) if isinstance(asked(call), int | float)
        }
        self._fields = [name for name, value in self._asked(FIELDS) if value is not None]
        self.names = ("at", "took_us", *self._calls, *self._fields)

    def read(self) -> list[Number]:
        """Values in the order of `names`; `at` is on the monotonic clock. What is refused now is None."""
        began = time.monotonic()
        values = [value for _, value in self._asked(self._fields)] if self._fields else []
        answers = [asked(call) for call in self._calls.values()]
        calls = [each if isinstance(each, int | float) else None for each in answers]
        took = 1e6 * (time.monotonic() - began)
        return [round(began, 4), round(took), *calls, *values]

    def _asked(self, names: Sequence[str] | Mapping[str, int]) -> Iterator[tuple[str, Number]]:
        values = asked(pynvml.nvmlDeviceGetFieldValues, self._handle, [FIELDS[n] for n in names])
        for name, value in zip(names, values, strict=False):
            known = not isinstance(value, str) and value.nvmlReturn == 0
            yield name, getattr(value.value, VALUES[value.valueType]) if known else None


def _calls(handle: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Clocks by both calls, power, what holds the clock down, and how long it did so far."""
    for name, clock in (("graphics", GRAPHICS), ("sm", SM), ("memory", MEMORY)):
        yield f"{name}_mhz", partial(pynvml.nvmlDeviceGetClockInfo, handle, clock)
        yield f"{name}_current_mhz", partial(pynvml.nvmlDeviceGetClock, handle, clock, 0)
    yield "power_mw", partial(pynvml.nvmlDeviceGetPowerUsage, handle)
    yield "enforced_limit_mw", partial(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    yield "energy_mj", partial(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    yield "celsius", partial(pynvml.nvmlDeviceGetTemperature, handle, 0)
    yield "performance_state", partial(pynvml.nvmlDeviceGetPerformanceState, handle)
    yield "reasons", partial(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    for name, policy in POLICIES.items():
        yield f"violation_{name}_ns", partial(_violation, handle, policy)


def _violation(handle: Any, policy: int) -> int:
    return int(pynvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime)
