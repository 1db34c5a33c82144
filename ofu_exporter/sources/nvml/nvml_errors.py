"""Translates the errors of NVIDIA's NVML binding into the reasons of this program."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ofu_exporter.values.reasons import Reason

# nvml.h, nvmlReturn_t
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND = 0, 2, 3, 6, 13
DRIVER_NOT_LOADED, LIBRARY_MISMATCH, UNKNOWN = 9, 18, 999
REASONS: Mapping[int | None, Reason] = {
    None: Reason.DRIVER_MISMATCH,  # NVMLLibraryMismatchError is the one error without a code
    1: Reason.NO_DRIVER,  # uninitialized
    NOT_SUPPORTED: Reason.NOT_SUPPORTED,
    4: Reason.NO_PERMISSION,
    NOT_FOUND: Reason.LOST,  # no GPU has this uuid any more
    DRIVER_NOT_LOADED: Reason.NO_DRIVER,
    12: Reason.NO_LIBRARY,
    FUNCTION_NOT_FOUND: Reason.DRIVER_TOO_OLD,
    15: Reason.LOST,
    16: Reason.LOST,  # reset required
    17: Reason.NO_PERMISSION,  # the device file is blocked by the system or a cgroup
    LIBRARY_MISMATCH: Reason.DRIVER_MISMATCH,
    19: Reason.COUNTER_BUSY,  # in use
    21: Reason.BLANK,  # no data
    27: Reason.BLANK,  # not ready
    28: Reason.LOST,  # GPU not found
    UNKNOWN: Reason.NO_DEVICE_FILES,
}


def errors(nvml: ModuleType) -> tuple[type[Exception], ...]:
    """The binding's errors. They have no common base, and old bindings lack the second."""
    return (nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError))


def code(error: Exception) -> int | None:
    """The driver's return code; None for a mismatch that the binding itself detected."""
    return getattr(error, "value", None)


def reason(error: Exception) -> Reason:
    return REASONS.get(code(error), Reason.FAILED)


def detail(error: Exception) -> str:
    """What the driver says, with the name of a function that its library lacks."""
    if code(error) != FUNCTION_NOT_FOUND or not isinstance(error.__context__, AttributeError):
        return str(error)
    # Such as `/lib/libnvidia-ml.so.1: undefined symbol: ...`.
    return f"{error}: {error.__context__}"


def ask(nvml: ModuleType, call: Any, *args: Any) -> Any:
    """The driver's answer to a call that may fail without harm; None when it fails."""
    try:
        return call(*args)
    except errors(nvml):
        return None
