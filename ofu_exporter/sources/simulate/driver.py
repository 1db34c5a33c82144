"""Simulates a node of H100 GPUs at work, for demonstrations and tests; used only on request.

The clock under full load moves as the paper measured it on an H100 (arXiv:2605.20799, section
IV-C: 1,201 to 1,558 MHz, mean 1,352, standard deviation 32). Everything is a function of the seed
and of the time since `open`, so two runs with one seed agree. Every uuid starts with `SIMULATED-`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ofu_exporter import sources
from ofu_exporter.sources import Clock
from ofu_exporter.sources.simulate.options import Options as Options
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Activity, ClockSample, CycleTotals, Fault, Reading

STEP_SECONDS = 0.1
"""The simulated clock changes this often."""
_MEMORY_SECONDS = 0.5
"""Correlation time of the clock's noise: how long the clock stays near where it was."""
_MAX_CLOCK_HZ = 1980e6


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """A stretch of time in which a workload keeps the tensor pipes equally busy."""

    seconds: float
    tensor_active: float
    clock_hz: float
    clock_std_hz: float = 0.0
    pipe: str = "hmma"
    engine: float = 1.0
    """Share of the time in which kernels run."""
    sm: float = 0.96
    """SM activity; at least the tensor activity."""
    dram: float = 0.3
    nvlink: float = 0.0
    """Bytes per second in each direction."""
    watts: float = 650.0


def idle(seconds: float, clock_hz: float) -> LoadPhase:
    """A stretch of time without a kernel."""
    return LoadPhase(seconds, 0.0, clock_hz, engine=0.0, sm=0.0, dram=0.0, watts=115.0)


GEMM_CLOCK_HZ = 1352e6
GEMM_CLOCK_STD_HZ = 32e6
WORKLOADS: Mapping[str, tuple[LoadPhase, ...]] = {
    "training": (
        LoadPhase(2.4, 0.74, GEMM_CLOCK_HZ, GEMM_CLOCK_STD_HZ),
        LoadPhase(0.4, 0.02, 1755e6, 20e6, sm=0.24, dram=0.12, nvlink=280e9, watts=330.0),
        idle(0.2, 1980e6),
    ),
    "pretraining": (
        LoadPhase(5.0, 0.82, GEMM_CLOCK_HZ, GEMM_CLOCK_STD_HZ),
        LoadPhase(0.3, 0.05, 1755e6, 20e6, sm=0.3, dram=0.15, nvlink=320e9, watts=350.0),
    ),
    "inference": (
        LoadPhase(0.3, 0.61, 1500e6, 40e6),
        LoadPhase(1.9, 0.11, 1980e6, sm=0.9, dram=0.82, watts=420.0),
        idle(0.5, 1980e6),
    ),
    "int8 inference": (
        LoadPhase(0.8, 0.45, 1620e6, 30e6, "imma"),
        LoadPhase(0.9, 0.04, 1980e6, pipe="imma", sm=0.7, dram=0.6, watts=330.0),
    ),
    "fp64 solver": (
        LoadPhase(3.0, 0.58, 1640e6, 25e6, "dfma"),
        LoadPhase(1.0, 0.0, 1980e6, sm=0.8, dram=0.7, watts=310.0),
    ),
    "idle": (idle(60.0, 345e6),),
}
_NODE = (*["training"] * 3, "pretraining", "inference", "int8 inference", "fp64 solver", "idle")


@dataclass(slots=True)
class _Totals:
    """Cycles since the simulation began."""

    elapsed: float = 0.0
    tensor: float = 0.0
    hmma: float = 0.0
    imma: float = 0.0
    dfma: float = 0.0
    sm: float = 0.0
    dram: float = 0.0
    seconds: float = 0.0
    """Time in all; the next is time too."""
    engine: float = 0.0
    nvlink_bytes: float = 0.0
    joules: float = 0.0

    def since(self, before: _Totals) -> _Totals:
        """What was done after an earlier state."""
        names = self.__slots__
        return _Totals(*(getattr(self, name) - getattr(before, name) for name in names))


class Probe(sources.Probe):
    """One simulated GPU."""

    def __init__(self, index: int, options: Options, clock: Clock) -> None:
        """It runs the workload that the node has at this index."""
        self._gpu = Gpu(
            index=str(index),
            uuid=f"SIMULATED-{options.seed}-{index}",
            name="NVIDIA H100 80GB HBM3",
            pci_bus_id=f"00000000:{index + 1:02X}:00.0",
            pci_device_id="2330",
            driver="simulated",
            sm_count=132,
            compute_capability=(9, 0),
            max_sm_clock_hz=_MAX_CLOCK_HZ,
            memory_bytes=80 << 30,
        )
        self._random = random.Random(f"{options.seed}/{index}")
        self._phases = WORKLOADS[_NODE[index % len(_NODE)]]
        self._period = math.fsum(phase.seconds for phase in self._phases)
        self._offset = self._random.random() * self._period
        self._has_cycles = options.simulated_cycles
        self._clock = clock
        self._epoch = clock()
        self._steps = 0
        self._noise = self._random.gauss(0, 1)
        self._totals = _Totals()
        self._before: tuple[float, _Totals] | None = None
        self._clocks: list[ClockSample] = []

    def gpus(self) -> Sequence[Gpu]:
        return [self._gpu]

    def poll(self) -> None:
        at = self._clock()
        self._advance(at)
        self._clocks.append(ClockSample(at, round(self._clock_hz(self._phase()), -6)))

    def read(self) -> Sequence[Reading | Fault]:
        self.poll()
        at = self._clocks[-1].at
        if self._before is not None and self._totals.elapsed <= self._before[1].elapsed:
            return []  # the window is shorter than a step and goes on
        now = replace(self._totals)
        before, self._before = self._before, (at, now)
        clocks, self._clocks = tuple(self._clocks), [self._clocks[-1]]
        if before is None:
            return []
        return [self._reading(before, (at, now), clocks)]

    def _reading(
        self,
        before: tuple[float, _Totals],
        after: tuple[float, _Totals],
        clocks: tuple[ClockSample, ...],
    ) -> Reading:
        (start, old), (end, new) = before, after
        done = new.since(old)
        return Reading(
            gpu=self._gpu,
            start=start,
            end=end,
            tensor_active=done.tensor / done.elapsed,
            pipes={pipe: getattr(done, pipe) / done.elapsed for pipe in ("hmma", "imma", "dfma")},
            clocks=clocks,
            cycles=CycleTotals(new.elapsed, new.tensor) if self._has_cycles else None,
            activity=_activity(done),
        )

    def _advance(self, at: float) -> None:
        """Bring the totals up to `at`, in whole steps."""
        memory = math.exp(-STEP_SECONDS / _MEMORY_SECONDS)
        fresh, totals = math.sqrt(1 - memory * memory), self._totals
        while (self._steps + 1) * STEP_SECONDS <= at - self._epoch:
            self._steps += 1
            self._noise = memory * self._noise + fresh * self._random.gauss(0, 1)
            phase = self._phase()
            cycles = self._clock_hz(phase) * STEP_SECONDS
            tensor = cycles * phase.tensor_active
            totals.elapsed += cycles
            totals.tensor += tensor
            totals.sm += cycles * max(phase.sm, phase.tensor_active)
            totals.dram += cycles * phase.dram
            totals.seconds += STEP_SECONDS
            totals.engine += STEP_SECONDS * phase.engine
            totals.nvlink_bytes += STEP_SECONDS * phase.nvlink
            totals.joules += STEP_SECONDS * phase.watts
            setattr(totals, phase.pipe, getattr(totals, phase.pipe) + tensor)

    def _phase(self) -> LoadPhase:
        into = (self._steps * STEP_SECONDS + self._offset) % self._period
        for phase in self._phases:
            if into < phase.seconds:
                return phase
            into -= phase.seconds
        return self._phases[-1]

    def _clock_hz(self, phase: LoadPhase) -> float:
        """The clock now. As in the paper, it stays within -4.7 and 6.4 standard deviations of its mean."""
        noise = min(max(self._noise, -4.7), 6.4)
        return min(phase.clock_hz + noise * phase.clock_std_hz, _MAX_CLOCK_HZ)


def _activity(done: _Totals) -> Activity:
    """What else was done in a time. Pipes and PCIe are simply a share of what the SMs and kernels do."""
    engine, sm = done.engine / done.seconds, done.sm / done.elapsed
    nvlink = done.nvlink_bytes / done.seconds
    return Activity(
        engine=engine,
        sm=sm,
        occupancy=0.4 * sm,
        fp64=0.0,
        fp32=0.08 * sm,
        fp16=0.01 * sm,
        integer=0.1 * sm,
        pcie_sent=1.5e9 * engine,
        pcie_received=2.5e9 * engine,
        dram=done.dram / done.elapsed,
        nvlink_sent=nvlink,
        nvlink_received=nvlink,
        energy_joules=done.joules,
    )


class Source(sources.Source):
    """A simulated node."""

    simulated = True

    def __init__(self, options: Options, clock: Clock = time.monotonic) -> None:
        self._options = options
        self._clock = clock

    def open(self) -> Sequence[Probe]:
        return [
            Probe(index, self._options, self._clock)
            for index in range(self._options.simulated_gpus)
        ]
