"""Lists the GPU instances that MIG divides a GPU into. It asks the driver each time, and keeps no handle."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

from ofu_exporter.sources.nvml.nvml_errors import (
    FUNCTION_NOT_FOUND,
    NOT_FOUND,
    NOT_SUPPORTED,
    code,
    errors,
)
from ofu_exporter.values.gpu import Gpu


class _Part(NamedTuple):
    """One MIG device as NVML lists it: a compute instance inside a GPU instance."""

    uuid: str
    name: str
    attributes: Any
    """None where the driver does not say."""


def is_on(nvml: ModuleType, handle: Any, before: bool) -> bool:
    """Whether the GPU is in MIG mode; `before` if the driver does not answer now."""
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except errors(nvml) as error:
        return before and code(error) not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND)


def instances(nvml: ModuleType, handle: Any, whole: Gpu) -> tuple[Gpu, ...]:
    """The GPU instances of a GPU that there are now, by instance id. Raises the binding's errors.

    An instance without a compute instance is not listed: nothing can run on it.
    """
    parts: dict[int, list[_Part]] = {}
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            parts.setdefault(nvml.nvmlDeviceGetGpuInstanceId(device), []).append(
                _part(nvml, device)
            )
        except errors(nvml) as error:
            if code(error) != NOT_FOUND:  # a free index, or an instance that is being removed
                raise
    return tuple(_instance(whole, id_, inside) for id_, inside in sorted(parts.items()))


def _part(nvml: ModuleType, device: Any) -> _Part:
    try:
        attributes = nvml.nvmlDeviceGetAttributes_v2(device)
    except errors(nvml) as error:
        if code(error) not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
            raise
        attributes = None
    name = nvml.nvmlDeviceGetName(device)
    return _Part(nvml.nvmlDeviceGetUUID(device), name, attributes)


def _instance(whole: Gpu, id_: int, parts: list[_Part]) -> Gpu:
    """One GPU instance. Its name in CUDA is its compute instance's; "" unless it has exactly one."""
    uuid = parts[0].uuid if len(parts) == 1 else ""
    instance = replace(
        whole,
        instance=str(id_),
        profile=_profile(parts),
        mig_uuid=uuid,
        sm_count=None,
        memory_bytes=None,
    )
    attributes = [part.attributes for part in parts if part.attributes is not None]
    if len(attributes) < len(parts):
        return instance
    slices = sum(each.computeInstanceSliceCount for each in attributes)
    fills = slices == attributes[0].gpuInstanceSliceCount
    return replace(
        instance,
        sm_count=sum(each.multiprocessorCount for each in attributes) if fills else None,
        memory_bytes=attributes[0].memorySizeMB << 20,
    )


def _profile(parts: list[_Part]) -> str:
    """The profile in a name such as `NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb`, without the compute instance's `1c`."""
    _, _, profile = parts[0].name.rpartition(" MIG ")
    first, _, rest = profile.partition(".")
    return rest if first.endswith("c") and rest else profile
