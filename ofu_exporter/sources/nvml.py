"""Reads GPM counters and the SM clock through NVML (Hopper and newer), needs no root.

A window is what lies between two GPM samples, and the sample that ends one window begins the next:
windows tile time without a gap. At any error of the driver everything held of that GPU is dropped
and begun anew at the next read, so no window spans time in which the GPU was not watched.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, ModuleType
from typing import Any

from pydantic import BaseModel, ConfigDict

from ofu_exporter.errors import GpuError, Reason, SourceError
from ofu_exporter.records import (
    SHORTEST_WINDOW_SECONDS,
    ClockSample,
    CycleTotals,
    Gpu,
    Reading,
)
from ofu_exporter.sources import Clock

AUTO_RANK: int | None = 0

MOST_CLOCK_SAMPLES = 4096
"""Bounds the memory of a window that nobody ends."""

# nvml.h, nvmlGpmMetricId_t. Bare numbers: bindings before 13.595 have no names for the cycles.
ANY_TENSOR = 5
PIPES = {"hmma": 7, "dmma": 8, "imma": 9}
CYCLES_ELAPSED, CYCLES_TENSOR = 248, 250
CYCLES = (CYCLES_ELAPSED, CYCLES_TENSOR)
METRICS = (ANY_TENSOR, *PIPES.values(), *CYCLES)

# nvml.h, nvmlReturn_t
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED = 0, 2, 3
REASONS: Mapping[int | None, Reason] = {
    None: Reason.DRIVER_MISMATCH,  # NVMLLibraryMismatchError is the one error without a code
    1: Reason.NO_DRIVER,  # uninitialized
    NOT_SUPPORTED: Reason.NOT_SUPPORTED,
    4: Reason.NO_PERMISSION,
    6: Reason.LOST,  # not found: no GPU has this uuid any more
    9: Reason.NO_DRIVER,
    12: Reason.NO_LIBRARY,
    13: Reason.NOT_SUPPORTED,  # function not found: a driver from before GPM
    15: Reason.LOST,
    16: Reason.LOST,  # reset required
    17: Reason.NO_PERMISSION,  # the device file is blocked by the system or a cgroup
    18: Reason.DRIVER_MISMATCH,
    19: Reason.COUNTER_BUSY,  # in use
    28: Reason.LOST,  # GPU not found
}

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
"""By compute capability; a minor version of None stands for all of them."""


class Options(BaseModel):
    """This source has no settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Source:
    """The GPUs of this node, through the driver's own library."""

    simulated = False
    rejected: Mapping[str, int] = MappingProxyType({})

    def __init__(self, options: Options, clock: Clock = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._nvml: ModuleType | None = None

    def open(self) -> Sequence[GpuProbe]:
        """One probe per GPU. Asks the driver about none of them: one that hangs must not stop here."""
        import pynvml  # noqa: PLC0415 - the vendor's library, loaded only where this source is used

        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            count = pynvml.nvmlDeviceGetCount()
        except _errors(pynvml) as error:
            self.close()
            raise SourceError(_reason(error), str(error)) from error
        if count == 0:
            self.close()
            raise SourceError(Reason.NO_GPU, "the driver sees no GPU")
        driver = _ask(pynvml, pynvml.nvmlSystemGetDriverVersion) or ""
        return [GpuProbe(pynvml, index, driver, self._clock) for index in range(count)]

    def close(self) -> None:
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            _ask(nvml, nvml.nvmlShutdown)


class GpuProbe:
    """One GPU, driven by one thread, which also closes it; it finds its GPU again by itself."""

    def __init__(self, nvml: ModuleType, index: int, driver: str, clock: Clock) -> None:
        self._nvml = nvml
        self._index = index
        self._clock = clock
        self._uuid: str | None = None
        self._gpu = Gpu(index=str(index), uuid=f"index-{index}", driver=driver)
        self._series: _Series | None = None

    def gpus(self) -> Sequence[Gpu]:
        """What is known by now; until the first successful read a placeholder for the uuid."""
        return (self._gpu,)

    def poll(self) -> None:
        """Read the clock into the window that is open. A failure costs this clock read only."""
        if self._series is None:
            return
        try:
            self._series.poll()
        except _errors(self._nvml) as error:
            raise GpuError(_reason(error), str(error)) from error

    def read(self) -> Sequence[Reading]:
        try:
            if self._series is None:
                self._begin()
                return ()
            reading = self._series.end_window(self._gpu)
        except GpuError:
            self.close()
            raise
        except _errors(self._nvml) as error:
            reason, detail = _reason(error), str(error)
            if reason is Reason.NOT_SUPPORTED:
                detail = self._why_unsupported()
            self.close()
            raise GpuError(reason, detail) from error
        return () if reading is None else (reading,)

    def close(self) -> None:
        series, self._series = self._series, None
        if series is not None:
            series.close()

    def _begin(self) -> None:
        handle = self._find()
        self._gpu = self._described(handle)
        # Known to the probe before it holds anything of the driver's, so that close() frees it.
        self._series = _Series(self._nvml, handle, self._clock)
        if not self._nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise GpuError(Reason.NOT_SUPPORTED, self._why_unsupported())
        self._series.begin()

    def _find(self) -> Any:
        """The handle of this GPU: the one at its index, unless another GPU is there now.

        Not by uuid at once: to look for a uuid the driver may have to wake every GPU, and one that
        hangs would then take this one with it.
        """
        handle = self._nvml.nvmlDeviceGetHandleByIndex(self._index)
        uuid = self._nvml.nvmlDeviceGetUUID(handle)
        if self._uuid is None:
            self._uuid = uuid
        elif uuid != self._uuid:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(self._uuid)
        return handle

    def _described(self, handle: Any) -> Gpu:
        """The GPU with all that the driver tells of it; what it does not tell costs no measurement."""
        nvml = self._nvml
        pci = _ask(nvml, nvml.nvmlDeviceGetPciInfo, handle)
        memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
        max_mhz = _ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
        capability = _ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
        cores = _ask(nvml, nvml.nvmlDeviceGetNumGpuCores, handle)
        return replace(
            self._gpu,
            uuid=self._uuid or self._gpu.uuid,
            name=_ask(nvml, nvml.nvmlDeviceGetName, handle) or "",
            pci_bus_id=_text(pci.busId) if pci else "",
            pci_device_id=f"{pci.pciDeviceId >> 16:04x}" if pci else "",
            sm_count=_sm_count(cores, capability),
            compute_capability=capability,
            max_sm_clock_hz=max_mhz * 1e6 if max_mhz else None,
            memory_bytes=memory.total if memory else None,
            minor=_ask(nvml, nvml.nvmlDeviceGetMinorNumber, handle),
        )

    def _why_unsupported(self) -> str:
        mode = self._series and _ask(
            self._nvml, self._nvml.nvmlDeviceGetMigMode, self._series.handle
        )
        if mode and mode[0]:
            return "MIG is on: the counters belong to its instances, not to the whole GPU"
        return "the driver has no GPM counters for this GPU"


class _Series:
    """The GPM samples taken of one GPU through one handle; the first error ends it."""

    def __init__(self, nvml: ModuleType, handle: Any, clock: Clock) -> None:
        self.handle = handle
        self._nvml = nvml
        self._clock = clock
        self._asked = METRICS
        self._query = nvml.c_nvmlGpmMetricsGet_t()
        self._query.version = nvml.NVML_GPM_METRICS_GET_VERSION
        # The sample that began the window, then the one to end it with; they take turns.
        self._samples: list[Any] = []
        self._start = math.nan
        self._clocks: list[ClockSample] = []

    def begin(self) -> None:
        """Take the sample that begins the first window."""
        for _ in range(2):
            self._samples.append(self._nvml.nvmlGpmSampleAlloc())
        self._start = self._take(self._samples[0])
        self._clocks = self._clock_read(self._start)

    def poll(self) -> None:
        self._clocks += self._clock_read()
        if len(self._clocks) > MOST_CLOCK_SAMPLES:
            del self._clocks[1::2]  # every other one: what is left still covers the whole window

    def end_window(self, gpu: Gpu) -> Reading | None:
        """The window that ends now, the next one begun. None = too early to end it."""
        if self._clock() - self._start < SHORTEST_WINDOW_SECONDS:
            return None
        end = self._take(self._samples[1])
        edge = self._clock_read(end)
        values = self._metrics()
        reading = Reading(
            gpu=gpu,
            start=self._start,
            end=end,
            tensor_active=_ratio(values, ANY_TENSOR),
            pipes={pipe: values[id_] / 100 for pipe, id_ in PIPES.items() if id_ in values},
            clocks=(*self._clocks, *edge),
            cycles=_cycles(values),
        )
        self._samples.reverse()
        self._start, self._clocks = end, edge
        return reading

    def close(self) -> None:
        while self._samples:
            _ask(self._nvml, self._nvml.nvmlGpmSampleFree, self._samples.pop())

    def _take(self, sample: Any) -> float:
        """Returns when. After the call: a driver that made us wait answers with what it has then."""
        self._nvml.nvmlGpmSampleGet(self.handle, sample)
        return self._clock()

    def _clock_read(self, at: float | None = None) -> list[ClockSample]:
        """One read of the SM clock, or none from a GPU that has no such clock."""
        try:
            mhz = self._nvml.nvmlDeviceGetClockInfo(self.handle, self._nvml.NVML_CLOCK_SM)
        except self._nvml.NVMLError_NotSupported:
            return []
        return [ClockSample(self._clock() if at is None else at, mhz * 1e6)]

    def _metrics(self) -> dict[int, float]:
        """What the driver answers for this window; a metric it has no value for is left out."""
        self._ask_driver()
        answers = [
            (id_, metric.nvmlReturn, metric.value)
            for id_, metric in zip(self._asked, self._query.metrics, strict=False)
        ]
        values = {id_: value for id_, code, value in answers if code == SUCCESS}
        if not values:
            raise self._nvml.NVMLError(answers[0][1])
        # Activity is what this source is for: it is asked for again whatever the answer was.
        refused = [id_ for id_, code, _ in answers if code in (INVALID_ARGUMENT, NOT_SUPPORTED)]
        self._asked = tuple(id_ for id_ in self._asked if id_ == ANY_TENSOR or id_ not in refused)
        return values

    def _ask_driver(self) -> None:
        query = self._query
        query.sample1, query.sample2 = self._samples
        query.numMetrics = len(self._asked)
        for metric, id_ in zip(query.metrics, self._asked, strict=False):
            # An entry that the driver passes over must not repeat the window before.
            metric.metricId, metric.nvmlReturn, metric.value = id_, SUCCESS, math.nan
        try:
            self._nvml.nvmlGpmMetricsGet(query)
        except self._nvml.NVMLError_InvalidArgument:
            if CYCLES_ELAPSED not in self._asked and CYCLES_TENSOR not in self._asked:
                raise
            # A driver from before the cycle counters may refuse the whole call for their ids.
            self._asked = tuple(id_ for id_ in self._asked if id_ not in CYCLES)
            self._ask_driver()


def _errors(nvml: ModuleType) -> tuple[type[Exception], ...]:
    """The binding's errors; they have no common base, and the second came later."""
    return (nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError))


def _reason(error: Exception) -> Reason:
    return REASONS.get(getattr(error, "value", None), Reason.FAILED)


def _ask(nvml: ModuleType, call: Any, *args: Any) -> Any:
    """The driver's answer, None when it has none: for what may fail without harm."""
    try:
        return call(*args)
    except _errors(nvml):
        return None


def _text(value: str | bytes) -> str:
    """Bindings differ in whether they decode the strings inside structures."""
    return value.decode() if isinstance(value, bytes) else value


def _sm_count(cores: int | None, capability: tuple[int, int] | None) -> int | None:
    """Number of SMs; None when the driver or this table does not tell."""
    if not cores or capability is None:
        return None
    per_sm = CORES_PER_SM.get(capability) or CORES_PER_SM.get((capability[0], None))
    return cores // per_sm if per_sm and cores % per_sm == 0 else None


def _ratio(values: Mapping[int, float], id_: int) -> float | None:
    """From percent."""
    return values[id_] / 100 if id_ in values else None


def _cycles(values: Mapping[int, float]) -> CycleTotals | None:
    if CYCLES_ELAPSED in values and CYCLES_TENSOR in values:
        return CycleTotals(elapsed=values[CYCLES_ELAPSED], tensor=values[CYCLES_TENSOR])
    return None
