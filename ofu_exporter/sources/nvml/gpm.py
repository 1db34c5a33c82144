"""Makes windows from the GPM samples of one GPU or MIG instance.

A window lies between two samples, and the sample that ends one window begins the next, so windows leave no gap.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ofu_exporter.sources.nvml.inner_samples import ANY_TENSOR, GpmSample, InnerSamples
from ofu_exporter.sources.nvml.nvml_errors import INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, ask
from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import (
    BUSY_UTILIZATION,
    COUNTER_AGE_SECONDS,
    SHORTEST_WINDOW_SECONDS,
    Activity,
    Clock,
    ClockSample,
    CycleTotals,
    Evidence,
    Reading,
)

MIB = 1 << 20
MOST_CLOCK_SAMPLES = 4096
"""Most clock samples that are kept of a window that is not ended."""

# nvml.h, nvmlGpmMetricId_t. Bare numbers: bindings before 13.595 have no names for the cycles.
GRAPHICS, SM, OCCUPANCY, DRAM = 1, 2, 3, 10
PIPES = {"dfma": 6, "hmma": 7, "dmma": 8, "imma": 9}
OTHER_PIPES = {"integer": 4, "fp64": 11, "fp32": 12, "fp16": 13}
RATIOS = {"engine": GRAPHICS, **OTHER_PIPES, "sm": SM, "occupancy": OCCUPANCY, "dram": DRAM}
LINKS = {"pcie_sent": 20, "pcie_received": 21, "nvlink_received": 60, "nvlink_sent": 61}
"""In MiB per second, of the whole GPU."""
CYCLES_ELAPSED, CYCLES_TENSOR = 248, 250
CYCLES = (CYCLES_ELAPSED, CYCLES_TENSOR)
INSTANCE_METRICS = (ANY_TENSOR, *PIPES.values(), *RATIOS.values())
"""Metrics of an instance, without the cycle counters: DCGM has these of whole GPUs only."""
METRICS = (*INSTANCE_METRICS, *LINKS.values(), *CYCLES)


THROTTLE_REASONS = "nvmlDeviceGetCurrentClocksThrottleReasons"
CLOCK_LIMITS = {1 << place: limit for place, limit in enumerate(ClockLimit)}
"""The bits of nvml.h, from nvmlClocksEventReasonGpuIdle (1) to DisplayClockSetting (0x100); R615 added two."""


class GpmSeries:
    """The samples taken of one target through one handle; the first error ends it."""

    def __init__(self, nvml: ModuleType, handle: Any, instance: int | None, clock: Clock) -> None:
        """`handle` is the GPU's also for an instance, whose clock is the GPU's; `instance` is its id."""
        self._nvml = nvml
        self._handle = handle
        self._instance = instance
        self._clock = clock
        self._query = nvml.c_nvmlGpmMetricsGet_t()
        self._query.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._entries = _entries(self._query)
        self._ask_for(METRICS if instance is None else INSTANCE_METRICS)
        # The sample that began the window, and the one that will end it; the two swap roles.
        self._samples: list[Any] = []
        self._inner = InnerSamples(nvml, lambda sample: self._take_sample(sample)[0])
        self._start = math.nan
        self._edge_seconds = 0.0
        self._worked_at: float | None = None
        """When utilization and power last showed work in the open window."""
        self._clocks: list[ClockSample] = []
        self._joules: float | None = None
        """What the card's energy counter showed when the window began; None where it has none."""

    def begin(self) -> None:
        """Take the sample that begins the first window."""
        for _ in range(2):
            self._samples.append(self._nvml.nvmlGpmSampleAlloc())
        self._start, self._edge_seconds = self._take_sample(self._samples[0])
        self._joules = self._energy_counter()
        self._clocks = self.read_clock(self._start)

    def note(self, clocks: list[ClockSample]) -> None:
        """Add clock reads to the open window."""
        self._clocks += clocks
        if len(self._clocks) > MOST_CLOCK_SAMPLES:
            del self._clocks[1::2]  # keep every other one: they still cover the whole window

    def divide(self) -> None:
        """Take a sample inside the open window, which will tell how the activity lay in it."""
        self._inner.take()

    def look_for_work(self) -> None:
        """Ask for utilization and power: should the window count nothing, they say whether the GPU worked in it."""
        if self._instance is not None:
            return
        evidence = Evidence(utilization_ratio=self._utilization())
        if (evidence.utilization_ratio or 0.0) >= BUSY_UTILIZATION:
            evidence = self._with_power(evidence)
        if evidence.shows_work:
            self._worked_at = self._clock()

    def end_window(self, gpu: Gpu) -> Reading | None:
        """End the window and begin the next. None = the window is too short to end."""
        if self._clock() - self._start < SHORTEST_WINDOW_SECONDS:
            return None
        end, edge_seconds = self._take_sample(self._samples[1])
        edge = self.read_clock(end)
        values = self._metrics()
        ends = GpmSample(self._start, self._samples[0]), GpmSample(end, self._samples[1])
        reading = Reading(
            gpu=gpu,
            start=self._start,
            end=end,
            tensor_active=_ratio(values, ANY_TENSOR),
            pipes={pipe: values[id_] / 100 for pipe, id_ in PIPES.items() if id_ in values},
            clocks=(*self._clocks, *edge),
            cycles=_cycles(values),
            evidence=self._evidence(values),
            activity=self._activity(values),
            shape=self._inner.end_window(*ends),
            clock_limits=self._clock_limits(),
            edge_seconds=math.hypot(max(edge_seconds, self._edge_seconds), COUNTER_AGE_SECONDS),
        )
        self._samples.reverse()
        self._edge_seconds = edge_seconds
        self._start, self._clocks = end, edge
        return reading

    def close(self) -> None:
        self._inner.close()
        while self._samples:
            ask(self._nvml, self._nvml.nvmlGpmSampleFree, self._samples.pop())

    def _take_sample(self, sample: Any) -> tuple[float, float]:
        """Take a sample; returns the time after the call, because a slow driver answers with its state at that
        time, and the seconds that the call took."""
        before = self._clock()
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._handle, sample)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, sample)
        after = self._clock()
        return after, after - before

    def read_clock(self, at: float | None = None) -> list[ClockSample]:
        """One read of the SM clock, of now or of `at`; none from a GPU that has no such clock."""
        try:
            mhz = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)
        except self._nvml.NVMLError_NotSupported:
            return []
        return [ClockSample(self._clock() if at is None else at, mhz * 1e6)]

    def _energy_counter(self) -> float | None:
        """Joules since the driver was loaded. The counter is of the whole card and says nothing about an instance."""
        if self._instance is not None:
            return None
        call = getattr(self._nvml, "nvmlDeviceGetTotalEnergyConsumption", None)
        millijoules = None if call is None else ask(self._nvml, call, self._handle)
        return None if millijoules is None else millijoules / 1000

    def _activity(self, values: Mapping[int, float]) -> Activity:
        """What else the GPU did between the two samples, and the energy since the window before."""
        before, self._joules = self._joules, self._energy_counter()
        energy = None if before is None or self._joules is None else self._joules - before
        return Activity(
            **{name: _ratio(values, id_) for name, id_ in RATIOS.items()},
            **{link: values[id_] * MIB for link, id_ in LINKS.items() if id_ in values},
            energy_joules=energy,
        )

    def _evidence(self, values: Mapping[int, float]) -> Evidence:
        """Other counters that show whether the GPU worked.

        Power and utilization belong to the whole GPU and say nothing about an instance. NVML has no utilization with
        MIG.
        """
        others = [values[id_] / 100 for id_ in OTHER_PIPES.values() if id_ in values]
        other_active = max(others) if len(others) == len(OTHER_PIPES) else None
        if self._instance is not None:
            return Evidence(_ratio(values, GRAPHICS), other_active)
        is_quiet = not values.get(ANY_TENSOR) and not values.get(GRAPHICS)
        worked_at, self._worked_at = self._worked_at, None
        at_end = Evidence(
            graphics_active=_ratio(values, GRAPHICS),
            other_active=other_active,
            utilization_ratio=self._utilization() if is_quiet else None,
            worked_seconds=None if worked_at is None else worked_at - self._start,
        )
        return self._with_power(at_end)

    def _with_power(self, evidence: Evidence) -> Evidence:
        nvml, handle = self._nvml, self._handle
        milliwatts = ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
        limit = ask(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        return evidence._replace(
            power=milliwatts / limit if milliwatts is not None and limit else None,
            power_watts=None if milliwatts is None else milliwatts / 1000,
        )

    def _clock_limits(self) -> tuple[ClockLimit, ...] | None:
        """What holds the clock of the whole GPU down now. A driver before R535 uses an older name for this."""
        nvml = self._nvml
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", THROTTLE_REASONS):
            call = getattr(nvml, name, None)
            bits = None if call is None else ask(nvml, call, self._handle)
            if bits is not None:
                return tuple(limit for bit, limit in CLOCK_LIMITS.items() if bits & bit)
        return None

    def _utilization(self) -> float | None:
        """Share of the last second or less in which a kernel ran. It does not come from the profiling counters."""
        rates = ask(self._nvml, self._nvml.nvmlDeviceGetUtilizationRates, self._handle)
        return None if rates is None else rates.gpu / 100

    def _metrics(self) -> dict[int, float]:
        """The driver's values for this window; a metric without a value is left out."""
        self._ask_driver()
        codes = {id_: entry.nvmlReturn for id_, entry in self._asked.items()}
        values = {id_: self._asked[id_].value for id_, code in codes.items() if code == SUCCESS}
        if not values:
            raise self._nvml.NVMLError(next(iter(codes.values())))
        if len(values) < len(codes):
            # Tensor activity is always requested, because nothing can be measured without it.
            refused = (INVALID_ARGUMENT, NOT_SUPPORTED)
            self._ask_for(
                [id_ for id_, code in codes.items() if id_ == ANY_TENSOR or code not in refused]
            )
        return values

    def _ask_for(self, metric_ids: Sequence[int]) -> None:
        """Ask for these metrics from now on."""
        self._asked = dict(zip(metric_ids, self._entries, strict=False))
        self._query.numMetrics = len(metric_ids)
        for id_, entry in self._asked.items():
            entry.metricId, entry.nvmlReturn, entry.value = id_, SUCCESS, math.nan
        size = len(metric_ids) * ctypes.sizeof(self._entries[0])
        self._unanswered = ctypes.string_at(ctypes.addressof(self._entries[0]), size)
        """The entries before an answer."""

    def _ask_driver(self) -> None:
        query = self._query
        # Cleared, so that an entry that the driver does not fill does not repeat the last value.
        ctypes.memmove(ctypes.byref(self._entries[0]), self._unanswered, len(self._unanswered))
        query.sample1, query.sample2 = self._samples
        try:
            self._nvml.nvmlGpmMetricsGet(query)
        except self._nvml.NVMLError_InvalidArgument:
            if not any(id_ in self._asked for id_ in CYCLES):
                raise
            # A driver without cycle counters may refuse the whole call because of their ids.
            self._ask_for([id_ for id_ in self._asked if id_ not in CYCLES])
            self._ask_driver()


def _entries(query: ctypes.Structure) -> list[Any]:
    """The metrics of a query as plain structures in the same memory: pynvml's run Python code at each access."""
    entries = query.metrics
    plain = _plain(entries._type_) * len(METRICS)
    return list(plain.from_buffer(query, type(query).metrics.offset))


@functools.lru_cache(maxsize=4)
def _plain(structure: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """A structure of the same fields."""
    return type(structure.__name__, (ctypes.Structure,), {"_fields_": structure._fields_})


def _ratio(values: Mapping[int, float], id_: int) -> float | None:
    """A metric in percent, as a ratio."""
    return values[id_] / 100 if id_ in values else None


def _cycles(values: Mapping[int, float]) -> CycleTotals | None:
    if CYCLES_ELAPSED in values and CYCLES_TENSOR in values:
        return CycleTotals(elapsed=values[CYCLES_ELAPSED], tensor=values[CYCLES_TENSOR])
    return None
