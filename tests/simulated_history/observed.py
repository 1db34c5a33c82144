"""Computes what the agents of its nodes count of a simulated job: GPU-seconds held and used, and its reports."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from ofu_exporter.fleet.simulation.fleet import JobTruth, SimulatedFleet
from ofu_exporter.fleet.simulation.layout import NodeFault
from ofu_exporter.fleet.simulation.spec import MINUTE, FaultKind

BLIND: frozenset[FaultKind] = frozenset(
    {"agent_missing", "counters_dead", "counters_frozen", "gpu_lost", "source_lost"}
)
"""Faults with which a GPU still works but is not measured."""
SHORT = 5
"""Minutes of the ranges of rules over single GPUs."""
SETTLED_MINUTES = 2
"""The agents count a report of a whole minute as soon as this time is over."""
COMPARED = ("compared_mfu", "compared_utilization", "compared_gpu")
"""The counters of what a report and OFU both cover."""
LOSSES = ("lost", "gained")


@dataclass(frozen=True)
class GrowingSum:
    """A sum that grows: its value at the end of each minute of a job, 0 before and the last one after."""

    first: int
    """Minute of the fleet at which the sum is 0."""
    values: array[float]

    @classmethod
    def of(cls, first: int, growth: Iterable[float]) -> GrowingSum:
        return cls(first, array("d", accumulate(growth, initial=0.0)))

    def at(self, minute: int) -> float:
        place = min(minute - self.first, len(self.values) - 1)
        return self.values[place] if place > 0 else 0.0

    def grown(self, minute: int, minutes: int) -> float:
        """By how much the sum has grown in the last `minutes` minutes."""
        return self.at(minute) - self.at(minute - minutes)


class Watched:
    """What of a job agents watch in each of its minutes."""

    def __init__(self, truth: JobTruth, fleet: SimulatedFleet) -> None:
        job, minutes = truth.job, truth.job.end - truth.job.start
        self.gpus = [truth.gpu_shares] * minutes
        """GPUs that are measured."""
        self.work = [truth.gpu_shares * truth.mean_share] * minutes
        """The same GPUs, each by what it does."""
        self.held = [truth.gpu_shares] * minutes
        """GPUs on nodes with an agent."""
        self.devices = [job.size] * minutes
        """Devices that are measured."""
        self.agents = [len(job.devices)] * minutes
        for node, devices in job.devices.items():
            shares = fleet.nodes[node].shares
            for minute, unseen, has_agent in blind(fleet.faults.get(node, ()), job.start, job.end):
                place, lost = minute - job.start, [d for d in devices if d in unseen]
                self.gpus[place] -= math.fsum(shares[d] for d in lost)
                self.work[place] -= math.fsum(shares[d] * truth.share_of(node, d) for d in lost)
                self.devices[place] -= len(lost)
                if not has_agent:
                    self.held[place] -= math.fsum(shares[d] for d in devices)
                    self.agents[place] -= 1


class ObservedJob:
    """One job as the agents of its nodes count it together."""

    def __init__(self, truth: JobTruth, fleet: SimulatedFleet) -> None:
        self.truth = truth
        self.start, self.end = truth.job.start, truth.job.end
        self.watched = Watched(truth, fleet)
        self.activity = [*activity(truth, fleet)]
        minutes = range(self.start + 1, self.end)
        mfus = ((minute, truth.reported_mfu(minute, fleet.spec.seed)) for minute in minutes)
        self.mfus = {minute: mfu for minute, mfu in mfus if mfu is not None}
        """What it reports, by the minute."""
        self.counters = {
            key: GrowingSum.of(self.start, growth) for key, growth in self._growth().items()
        }
        """Sums over its GPUs, by the name of the counter and the part of the peak that it is of."""
        self.counters |= self._compared()

    @property
    def used(self) -> GrowingSum:
        """GPU-seconds of peak."""
        return self.counters["utilization", ""]

    def _growth(self) -> Mapping[tuple[str, str], list[float]]:
        """By how much its counters grow in each of its minutes."""
        truth, watched = self.truth, self.watched
        growth: dict[tuple[str, str], list[float]] = {}
        for place, (ofu, on) in enumerate(zip(truth.ofu, truth.is_running, strict=True)):
            gpus, work = watched.gpus[place], watched.work[place]
            lost = lost_of(truth, work * ofu / gpus if gpus > 0 else 0.0, self.activity[place])
            now = {
                ("held_gpu", ""): MINUTE * watched.held[place] * on,
                ("gpu", ""): MINUTE * gpus * on,
                ("utilization", ""): MINUTE * work * ofu,
                ("gained", ""): MINUTE * gpus * on * max(0.0, -lost["clock"]),
            }
            now |= {
                ("lost", part): MINUTE * gpus * on * max(0.0, share) for part, share in lost.items()
            }
            for key, seconds in now.items():
                growth.setdefault(key, []).append(seconds)
        was_measured = any(growth["gpu", ""])
        return {k: each for k, each in growth.items() if was_measured or k[0] not in LOSSES}

    def served(self) -> Iterator[tuple[str, Mapping[str, str], list[float]]]:
        """By how much the counters of energy, memory and tokens grow in each minute: name, labels, growth."""
        group, truth, watched = self.truth.job.draft.group, self.truth, self.watched
        measured = [
            MINUTE * gpus * on for gpus, on in zip(watched.gpus, truth.is_running, strict=True)
        ]
        if group.watts is not None:
            yield "energy_joules", {}, [group.watts * each for each in measured]
        if (serves := group.serves) is None:
            return
        yield "memory_gpu_seconds", {}, measured
        yield "memory_busy_seconds", {}, [serves.memory * each for each in measured]
        work = [
            MINUTE * held * ofu / truth.job.draft.ofu
            for held, ofu in zip(watched.held, truth.ofu, strict=True)
        ]
        for kind, rate in serves.tokens.items():
            labels = {"served_model": serves.model, "kind": kind}
            yield "tokens", labels, [rate * each for each in work]

    def _compared(self) -> Mapping[tuple[str, str], GrowingSum]:
        """What of its time is compared: each report counts once it is settled."""
        report, start = self.truth.job.draft.group.report, self.start
        if report is None or not self.mfus:
            return {}
        minutes = self.end - start + SETTLED_MINUTES
        growth = {(name, ""): [0.0] * minutes for name in COMPARED}
        for minute, mfu in self.mfus.items():
            work, seconds = (
                self.counters[name, ""].grown(minute, report.every)
                for name in ("utilization", "gpu")
            )
            place = minute + SETTLED_MINUTES - start - 1
            for each, value in zip(growth.values(), (mfu * seconds, work, seconds), strict=True):
                each[place] = value
        return {key: GrowingSum.of(start, each) for key, each in growth.items()}


def activity(truth: JobTruth, fleet: SimulatedFleet) -> Iterable[float]:
    """The mean tensor activity of the job's GPUs in each of its minutes: a GPU with a lower clock is more active."""
    job = truth.job
    clock_hz, size = job.draft.clock_hz, job.size
    more = [0.0] * (job.end - job.start)
    for node, devices in job.devices.items():
        limits = [f for f in fleet.faults.get(node, ()) if f.clock_hz is not None]
        for device in devices:
            mine = [fault for fault in limits if device in fault.devices]
            own_hz = min(clock_hz, truth.limit_hz(node, device))
            if not mine and own_hz == clock_hz:
                continue
            for place in range(len(more)):
                clocks_hz = [f.clock_hz or own_hz for f in mine if f.holds(job.start + place)]
                more[place] += clock_hz / min([own_hz, *clocks_hz]) - 1
    tensor_clock_hz = fleet.nodes[next(iter(job.devices))].tensor_clock_hz
    per_ofu = truth.mean_share * tensor_clock_hz / clock_hz
    return (ofu * per_ofu * (1 + extra / size) for ofu, extra in zip(truth.ofu, more, strict=True))


def lost_of(truth: JobTruth, ofu: float, active: float) -> dict[str, float]:
    """Where the rest of the peak goes at this OFU and tensor activity, by part: with the OFU they add up to 1."""
    engine, sm = truth.busy(active)
    return {
        "clock": active - ofu,
        "no_tensor": sm - active,
        "empty_sms": engine - sm,
        "idle": 1.0 - engine,
    }


def blind(
    faults: Iterable[NodeFault], start: int, end: int
) -> Iterator[tuple[int, frozenset[int], bool]]:
    """The minutes of [start, end) in which devices of a node are not measured: which, and whether it has an agent."""
    blinding = [fault for fault in faults if fault.kind in BLIND]
    for minute in sorted({minute for fault in blinding for minute in fault.overlap(start, end)}):
        now = [fault for fault in blinding if fault.holds(minute)]
        devices = frozenset[int]().union(*(fault.devices for fault in now))
        yield minute, devices, all(fault.kind != "agent_missing" for fault in now)
