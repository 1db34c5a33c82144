"""Simulates the counters of a node's GPUs: tensor activity and SM clock of each window, from the truth; never an OFU.

The numbers of a window depend only on the seed, the node and the window, so live pages and history agree.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ofu_exporter.fleet.simulation.fleet import JobTruth, SimulatedFleet
from ofu_exporter.fleet.simulation.layout import NodeFault
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Activity, ClockSample, Evidence, Fault, Reading
from ofu_exporter.values.reasons import Reason

CARD_SPREAD = 0.006
"""Standard deviation between cards of the clock under one load, as a share of the clock."""
WINDOW_SPREAD = 0.004
"""The same of one card's mean clock from window to window."""
READ_SPREAD = 0.0237
"""The same of point reads within a window: 32 of 1,352 MHz in arXiv:2605.20799, section IV-C."""
IDLE_HZ = 345e6
PAUSE_SPREAD = 0.3
"""The same of how long a job waits in a window; noise beyond two of these is cut."""
BUSY = (0.97, 0.6)
"""Engine and power of a GPU that works, as shares."""
FROZEN_TENSOR = 0.3127


class SimulatedCounters:
    """The counters of one node, read as a source's probes are: one window after another."""

    def __init__(self, fleet: SimulatedFleet, number: int) -> None:
        self._number, self._node, spec = number, fleet.nodes[number], fleet.spec
        self._interval, self._reads = spec.interval, spec.clock_reads
        self._shifts = fleet.shifts.get(number, ())
        self._faults = fleet.faults.get(number, ())
        key = f"{spec.seed}/{self._node.name}".encode()
        self._seed = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        chance = random.Random(self._seed)
        self._cards = [1 + CARD_SPREAD * chance.gauss(0, 1) for _ in self._node.devices]

    def read(self, window: int) -> Iterator[Reading | Fault]:
        """The readings of each GPU in a window; number 0 begins with the fleet."""
        start = float(window * self._interval)
        end = start + self._interval
        minute = int(start // MINUTE)
        faults = [fault for fault in self._faults if fault.holds(minute)]
        chance = random.Random((self._seed << 32) ^ window)
        at_work = {
            device: shift.truth
            for shift in self._shifts
            if shift.truth.job.start <= minute < shift.truth.job.end
            for device in shift.devices
        }
        for device, gpu in enumerate(self._node.devices):
            noise = [chance.gauss(0, 1) for _ in range(self._reads + 2)]
            of_device = [fault for fault in faults if device in fault.devices]
            blind = next((fault for fault in of_device if fault.kind in _REASONS), None)
            if blind is not None:
                yield Fault(gpu, end, _REASONS[blind.kind], "simulated")
                continue
            reading = self._reading(
                device, gpu, (start, end), noise, at_work.get(device), of_device
            )
            yield _spoiled(reading, of_device, noise)

    def _reading(
        self,
        device: int,
        gpu: Gpu,
        window: tuple[float, float],
        noise: Sequence[float],
        truth: JobTruth | None,
        faults: Sequence[NodeFault],
    ) -> Reading:
        start, end = window
        ofu = 0.0
        hz = IDLE_HZ
        if truth is not None and truth.is_running[int(start // MINUTE) - truth.job.start]:
            ofu = truth.mean(start, end) * truth.share_of(self._number, device)
            hz = truth.job.draft.clock_hz * self._cards[device] * (1 + WINDOW_SPREAD * noise[0])
            limits = [fault.clock_hz for fault in faults if fault.clock_hz is not None]
            hz = min(hz, truth.limit_hz(self._number, device), *limits, self._node.max_clock_hz)
        reads = self._reads + 1
        spread = READ_SPREAD * hz if ofu else 0.0
        step = (end - start) / (reads - 1)
        clocks = tuple(
            ClockSample(start + place * step, round(hz + spread * noise[1 + place], -6))
            for place in range(reads)
        )
        active = min(1.0, ofu * self._node.tensor_clock_hz / hz)
        pause = 1 + PAUSE_SPREAD * min(max(noise[1], -2.0), 2.0)
        engine, sm = truth.busy(active, pause) if truth is not None and ofu else (0.0, 0.0)
        pipes = {"hmma": active, "imma": 0.0, "dfma": 0.0}
        return Reading(
            gpu, start, end, active, pipes, clocks, activity=Activity(engine=engine, sm=sm)
        )


_REASONS = {"gpu_lost": Reason.LOST, "source_lost": Reason.UNREACHABLE}


def _spoiled(reading: Reading, faults: Sequence[NodeFault], noise: Sequence[float]) -> Reading:
    """The reading, with old values where the counters stand still."""
    kinds = {fault.kind for fault in faults}
    if not reading.tensor_active or kinds.isdisjoint({"counters_dead", "counters_frozen"}):
        return reading
    active = 0.0 if "counters_dead" in kinds else FROZEN_TENSOR
    engine, power = BUSY
    engine -= 0.1 * min(abs(noise[0]), 3.0)
    evidence = Evidence(graphics_active=engine, other_active=active and engine, power=power)
    pipes = {"hmma": active, "imma": 0.0, "dfma": 0.0}
    return replace(reading, tensor_active=active, pipes=pipes, evidence=evidence)
