"""Reads GPM counters and the SM clock of GPUs and MIG instances through NVML (Hopper and newer, without root).

At any error of the driver in a read, everything that is held of that GPU is released, and the next read starts again.
So no window includes time in which the GPU was not sampled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

from ofu_exporter import sources
from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.hardware import unrated
from ofu_exporter.sources import Clock
from ofu_exporter.sources.nvml.gpm import GpmSeries
from ofu_exporter.sources.nvml.nvml_errors import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    LIBRARY_MISMATCH,
    NOT_FOUND,
    NOT_SUPPORTED,
    ask,
    code,
    detail,
    errors,
    reason,
)
from ofu_exporter.sources.nvml.options import Options as Options
from ofu_exporter.values.gpu import Gpu, GpuKey, unnamed
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason

LOADED = threading.Event()
"""Set once the library of this process has worked with the driver."""
NO_COUNTERS = "the driver has no GPM counters for this GPU"
FIRST_WITH_GPM = (9, 0)
"""Compute capability of Hopper."""
VGPU_MODE = 2
"""NVML_GPU_VIRTUALIZATION_MODE_VGPU of nvml.h: a vGPU inside a virtual machine; a GPU passed through is whole."""

CORES_PER_SM: Mapping[tuple[int, int | None], int] = {
    (7, None): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, None): 128,
    (11, None): 128,
    (12, None): 128,
}
"""Keys are compute capabilities; a minor version of None stands for all minor versions."""


class Source(sources.Source):
    """The GPUs of this node, through the driver's own library."""

    def __init__(self, options: Options, clock: Clock = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._nvml: ModuleType | None = None

    def open(self) -> Sequence[GpuProbe]:
        """One probe per GPU. The driver is not asked about any GPU here, because one may hang."""
        import pynvml  # noqa: PLC0415 - the vendor's library, loaded only where this source is used

        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            count = pynvml.nvmlDeviceGetCount()
            LOADED.set()
        except errors(pynvml) as error:
            self.close()
            # After a pause there may be another driver, while this process still has the library of the old one.
            replaced = LOADED.is_set() and code(error) == LIBRARY_MISMATCH
            why = Reason.DRIVER_REPLACED if replaced else reason(error)
            raise SourceError(why, detail(error)) from error
        if count == 0:
            self.close()
            raise SourceError(Reason.NO_GPU, "the driver sees no GPU")
        driver = ask(pynvml, pynvml.nvmlSystemGetDriverVersion) or ""
        return [GpuProbe(pynvml, index, driver, self._clock) for index in range(count)]

    def close(self) -> None:
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            ask(nvml, nvml.nvmlShutdown)


class GpuProbe:
    """One GPU. One thread drives and closes the probe. After an error the probe finds its GPU again."""

    def __init__(self, nvml: ModuleType, index: int, driver: str, clock: Clock) -> None:
        self._nvml = nvml
        self._index = index
        self._clock = clock
        self._uuid: str | None = None
        self._whole = Gpu(index=str(index), uuid=unnamed(str(index)), driver=driver)
        self._gpus: tuple[Gpu, ...] = (self._whole,)
        self._handle: Any = None
        self._divided = False
        self._series: dict[GpuKey, GpmSeries] = {}
        self._to_divide: frozenset[GpuKey] = frozenset()

    def gpus(self) -> Sequence[Gpu]:
        """The GPU or its instances. The uuid is a placeholder until the first successful read."""
        return self._gpus

    def poll(self) -> None:
        """Add a read of the clock to the open windows, and look for work that is not counted. A failure costs only this
        read, unless the GPU is lost."""
        open_series = list(self._series.values())
        if not open_series:
            return
        try:
            clocks = open_series[0].read_clock()
        except errors(self._nvml) as error:
            if reason(error) is Reason.LOST:
                self.close()
            raise GpuError(reason(error), detail(error)) from error
        for key, series in self._series.items():
            series.note(clocks)
            series.look_for_work()
            if key in self._to_divide:
                series.divide()

    def divide(self, gpus: frozenset[GpuKey]) -> None:
        self._to_divide = gpus

    def read(self) -> Sequence[Reading | Fault]:
        try:
            if self._handle is None:
                self._handle = self._find()
                self._whole = self._described(self._handle)
            self._look_for_instances()
            events = [self._read_one(gpu) for gpu in self._gpus]
        except GpuError:
            self.close()
            raise
        except errors(self._nvml) as error:
            self.close()
            raise self._failure(error) from error
        return tuple(event for event in events if event is not None)

    def close(self) -> None:
        self._handle = None
        for key in list(self._series):
            self._drop(key)

    def _look_for_instances(self) -> None:
        """Find the instances that the GPU has now. An instance that has changed since the last window starts again."""
        before = self._gpus
        self._divided = mig_is_on(self._nvml, self._handle, self._divided)
        instances = mig_instances(self._nvml, self._handle, self._whole) if self._divided else ()
        self._gpus = instances or (self._whole,)
        if self._gpus != before:
            for key in {gpu.key for gpu in {*before} ^ {*self._gpus}} & self._series.keys():
                self._drop(key)
        if self._divided and self._gpus == (self._whole,):
            raise GpuError(Reason.NO_INSTANCE, "MIG is on and there is no GPU instance")

    def _read_one(self, gpu: Gpu) -> Reading | Fault | None:
        """End the window of a GPU or an instance, or begin its first. A failing instance does not affect the others."""
        try:
            series = self._series.get(gpu.key)
            if series is not None:
                return series.end_window(gpu)
            self._begin(gpu)
        except errors(self._nvml) as error:
            if not gpu.instance:
                raise
            self._drop(gpu.key)
            failure = self._failure(error)
            return Fault(gpu, self._clock(), failure.reason, failure.detail)
        return None

    def _begin(self, gpu: Gpu) -> None:
        if not self._nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
            raise self._without_counters()
        instance = int(gpu.instance) if gpu.instance else None
        # Stored before the series holds anything of the driver, so that close() can release it.
        series = self._series[gpu.key] = GpmSeries(self._nvml, self._handle, instance, self._clock)
        series.begin()

    def _drop(self, key: GpuKey) -> None:
        series = self._series.pop(key, None)
        if series is not None:
            series.close()

    def _failure(self, error: Exception) -> GpuError:
        """The GpuError or DriverReplacedError for an error of the driver. If the driver answered before and is now
        gone or different, it was replaced."""
        if self._uuid is not None and code(error) in (DRIVER_NOT_LOADED, LIBRARY_MISMATCH):
            return GpuError(Reason.DRIVER_REPLACED, str(error))
        capability = self._whole.compute_capability
        too_old = code(error) == FUNCTION_NOT_FOUND
        if too_old and capability is not None and capability < FIRST_WITH_GPM:
            return self._without_counters()  # a newer driver would make no difference
        if reason(error) is Reason.NOT_SUPPORTED:
            return self._without_counters()
        return GpuError(reason(error), detail(error))

    def _without_counters(self) -> GpuError:
        """The error for a GPU without counters: because of the driver, or because of the kind of GPU."""
        why = unrated.explain(self._whole, Reason.NOT_SUPPORTED, NO_COUNTERS)
        return GpuError(*why)

    def _find(self) -> Any:
        """The handle of this GPU, by its index, or by its uuid if another GPU has the index now.

        The uuid comes second, because to find it the driver may have to wake every GPU, and one that hangs would
        block this call too.
        """
        handle = self._nvml.nvmlDeviceGetHandleByIndex(self._index)
        uuid = self._nvml.nvmlDeviceGetUUID(handle)
        if self._uuid is None:
            self._uuid = uuid
        elif uuid != self._uuid:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(self._uuid)
        return handle

    def _described(self, handle: Any) -> Gpu:
        """The GPU with everything that the driver says about it. A missing answer does not stop the measurement."""
        nvml = self._nvml
        pci = ask(nvml, nvml.nvmlDeviceGetPciInfo, handle)
        memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
        max_mhz = ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
        capability = ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
        cores = ask(nvml, nvml.nvmlDeviceGetNumGpuCores, handle)
        return replace(
            self._whole,
            uuid=self._uuid or self._whole.uuid,
            name=ask(nvml, nvml.nvmlDeviceGetName, handle) or "",
            pci_bus_id=_text(pci.busId) if pci else "",
            pci_device_id=f"{pci.pciDeviceId >> 16:04x}" if pci else "",
            sm_count=_sm_count(cores, capability),
            compute_capability=capability,
            max_sm_clock_hz=max_mhz * 1e6 if max_mhz else None,
            memory_bytes=memory.total if memory else None,
            minor=ask(nvml, nvml.nvmlDeviceGetMinorNumber, handle),
            is_vgpu=ask(nvml, nvml.nvmlDeviceGetVirtualizationMode, handle) == VGPU_MODE,
        )


def _text(value: str | bytes) -> str:
    """Text from inside a structure, which some bindings decode and others do not."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _sm_count(cores: int | None, capability: tuple[int, int] | None) -> int | None:
    """Number of SMs; None if neither the driver nor this table has it."""
    if not cores or capability is None:
        return None
    per_sm = CORES_PER_SM.get(capability) or CORES_PER_SM.get((capability[0], None))
    return cores // per_sm if per_sm and cores % per_sm == 0 else None


class _MigDevice(NamedTuple):
    """One MIG device as NVML lists it: a compute instance inside a GPU instance."""

    uuid: str
    name: str
    attributes: Any
    """None where the driver does not say."""


def mig_is_on(nvml: ModuleType, handle: Any, before: bool) -> bool:
    """Whether the GPU is in MIG mode; `before` if the driver does not answer now."""
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except errors(nvml) as error:
        return before and code(error) not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND)


def mig_instances(nvml: ModuleType, handle: Any, whole: Gpu) -> tuple[Gpu, ...]:
    """The GPU instances that MIG divides a GPU into now, by instance id. Raises the binding's errors.

    The driver is asked each time, and no handle is kept. An instance without a compute instance is not listed: nothing
    can run on it.
    """
    devices: dict[int, list[_MigDevice]] = {}
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            described = _mig_device(nvml, device)
            devices.setdefault(nvml.nvmlDeviceGetGpuInstanceId(device), []).append(described)
        except errors(nvml) as error:
            if code(error) != NOT_FOUND:  # a free index, or an instance that is being removed
                raise
    return tuple(_instance(whole, id_, inside) for id_, inside in sorted(devices.items()))


def _mig_device(nvml: ModuleType, device: Any) -> _MigDevice:
    try:
        attributes = nvml.nvmlDeviceGetAttributes_v2(device)
    except errors(nvml) as error:
        if code(error) not in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
            raise
        attributes = None
    name = nvml.nvmlDeviceGetName(device)
    return _MigDevice(nvml.nvmlDeviceGetUUID(device), name, attributes)


def _instance(whole: Gpu, id_: int, devices: list[_MigDevice]) -> Gpu:
    """One GPU instance. Its name in CUDA is its compute instance's; "" unless it has exactly one."""
    uuid = devices[0].uuid if len(devices) == 1 else ""
    instance = replace(
        whole,
        instance=str(id_),
        profile=_profile(devices),
        mig_uuid=uuid,
        sm_count=None,
        memory_bytes=None,
    )
    attributes = [each.attributes for each in devices if each.attributes is not None]
    if len(attributes) < len(devices):
        return instance
    slices = sum(each.computeInstanceSliceCount for each in attributes)
    fills = slices == attributes[0].gpuInstanceSliceCount
    return replace(
        instance,
        sm_count=sum(each.multiprocessorCount for each in attributes) if fills else None,
        memory_bytes=attributes[0].memorySizeMB << 20,
    )


def _profile(devices: list[_MigDevice]) -> str:
    """The profile in a name such as `NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb`, without the compute instance's `1c`."""
    _, _, profile = devices[0].name.rpartition(" MIG ")
    first, _, rest = profile.partition(".")
    return rest if first.endswith("c") and rest else profile
