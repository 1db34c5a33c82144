"""Computes what the agents of its nodes count of a simulated job: GPU-seconds held and used, and its reports."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from ofu_exporter.fleet.simulation.faults import BLIND
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.reporting import reported_mfu
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.fleet.simulation.truth import JobTruth

SETTLED_MINUTES = 2
"""The agents count a report of a whole minute as soon as this time is over."""


@dataclass(frozen=True)
class GrowingSum:
    """A sum that grows: its value at the end of each minute of a job, 0 before and the last one after."""

    first: int
    """Minute of the fleet at which the sum is 0."""
    values: array[float]

    def at(self, minute: int) -> float:
        place = min(minute - self.first, len(self.values) - 1)
        return self.values[place] if place > 0 else 0.0

    def grown(self, minute: int, minutes: int) -> float:
        """By how much the sum has grown in the last `minutes` minutes."""
        return self.at(minute) - self.at(minute - minutes)


@dataclass(frozen=True)
class ObservedJob:
    """One job as the agents of its nodes count it together."""

    truth: JobTruth
    held: GrowingSum
    """GPU-seconds."""
    held_by_all: GrowingSum
    """The same if no agent had ever been missing."""
    present: array[float]
    """Part of the job's GPUs that is on nodes with an agent, in each of its minutes."""
    observed: GrowingSum
    used: GrowingSum
    """Integral of OFU over the observed GPU-seconds."""
    lost: Mapping[str, GrowingSum]
    """What was not used of the peak of the observed GPU-seconds, by part; empty if none were observed."""
    gained: GrowingSum
    """What the tensor pipes gained above the tensor clock: observed = used + lost - gained."""
    active: GrowingSum
    """Integral of the tensor activity of a GPU of the job, the mean over its GPUs."""
    devices: array[int]
    """Devices that are measured in each minute of the job."""
    agents: array[int]
    """Nodes of the job with an agent in each of its minutes."""
    reported: tuple[tuple[int, float], ...]
    """Each report: the minute at which it is made, and its MFU."""
    compared_mfu: GrowingSum
    """Integral of the reported MFU over the GPU-seconds that a report and OFU both cover, when it was counted."""
    compared_used: GrowingSum
    compared: GrowingSum

    @property
    def start(self) -> int:
        return self.truth.job.start

    @property
    def end(self) -> int:
        return self.truth.job.end


@dataclass(frozen=True)
class _Seen:
    """What of a job is measured in each of its minutes."""

    gpus: list[float]
    work: list[float]
    """The same GPUs, each by what it does."""
    held: list[float]
    devices: array[int]
    agents: array[int]


def observed_job(truth: JobTruth, fleet: SimulatedFleet) -> ObservedJob:
    """What the agents count of a job."""
    job = truth.job
    seen = _seen(truth, fleet)
    running = truth.is_running
    held = [MINUTE * gpus * on for gpus, on in zip(seen.held, running, strict=True)]
    observed = [MINUTE * gpus * on for gpus, on in zip(seen.gpus, running, strict=True)]
    used = [MINUTE * work * ofu for work, ofu in zip(seen.work, truth.ofu, strict=True)]
    all_held = [MINUTE * truth.gpu_shares * on for on in running]
    activities = [*activity(truth, fleet)]
    lost, gained = _losses(truth, seen, activities)
    seconds, work = GrowingSum(job.start, _summed(observed)), GrowingSum(job.start, _summed(used))
    reported = tuple(_reported(truth, fleet.spec.seed))
    compared_mfu, compared_used, compared = _compared(truth, reported, seconds, work)
    return ObservedJob(
        truth=truth,
        held=GrowingSum(job.start, _summed(held)),
        held_by_all=GrowingSum(job.start, _summed(all_held)),
        present=array("d", (gpus / truth.gpu_shares for gpus in seen.held)),
        observed=seconds,
        used=work,
        lost=lost,
        gained=gained,
        active=GrowingSum(job.start, _summed(MINUTE * each for each in activities)),
        devices=seen.devices,
        agents=seen.agents,
        reported=reported,
        compared_mfu=compared_mfu,
        compared_used=compared_used,
        compared=compared,
    )


def _losses(
    truth: JobTruth, seen: _Seen, activities: Iterable[float]
) -> tuple[Mapping[str, GrowingSum], GrowingSum]:
    lost: dict[str, list[float]] = {}
    gained = []
    minutes = zip(seen.gpus, seen.work, truth.ofu, truth.is_running, activities, strict=True)
    for gpus, work, ofu, on, active in minutes:
        mean = work * ofu / gpus if gpus > 0 else 0.0
        shares = truth.lost(mean, active)
        gained.append(MINUTE * gpus * on * max(0.0, -shares["clock"]))
        for part, share in shares.items():
            lost.setdefault(part, []).append(MINUTE * gpus * on * max(0.0, share))
    start = truth.job.start
    sums = {part: GrowingSum(start, _summed(values)) for part, values in lost.items()}
    was_observed = any(map(operator.mul, seen.gpus, truth.is_running))
    return sums if was_observed else {}, GrowingSum(start, _summed(gained))


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


def _summed(values: Iterable[float]) -> array[float]:
    return array("d", accumulate(values, initial=0.0))


def _reported(truth: JobTruth, seed: int) -> Iterable[tuple[int, float]]:
    for minute in range(truth.job.start + 1, truth.job.end):
        mfu = reported_mfu(truth, minute, seed)
        if mfu is not None:
            yield minute, mfu


def _compared(
    truth: JobTruth, reported: Iterable[tuple[int, float]], observed: GrowingSum, used: GrowingSum
) -> list[GrowingSum]:
    """The three sums over what is compared: each report counts once it is settled."""
    reporting, job = truth.job.draft.group.report, truth.job
    minutes = job.end - job.start + SETTLED_MINUTES
    grown = [[0.0] * minutes for _ in range(3)]
    for minute, mfu in reported:
        assert reporting is not None
        seconds = observed.grown(minute, reporting.every)
        place = minute + SETTLED_MINUTES - job.start - 1
        grown[0][place] = mfu * seconds
        grown[1][place] = used.grown(minute, reporting.every)
        grown[2][place] = seconds
    return [GrowingSum(job.start, _summed(each)) for each in grown]


def _seen(truth: JobTruth, fleet: SimulatedFleet) -> _Seen:
    job, minutes = truth.job, truth.job.end - truth.job.start
    seen = _Seen(
        gpus=[truth.gpu_shares] * minutes,
        work=[truth.gpu_shares * truth.mean_share] * minutes,
        held=[truth.gpu_shares] * minutes,
        devices=array("i", [job.size]) * minutes,
        agents=array("i", [len(job.devices)]) * minutes,
    )
    for node, devices in job.devices.items():
        faults = [fault for fault in fleet.faults.get(node, ()) if fault.kind in BLIND]
        if not faults:
            continue
        for minute in range(job.start, job.end):
            kinds = {fault.kind for fault in faults if fault.holds(minute)}
            if not kinds:
                continue
            blind = [d for d in devices if any(d in f.devices and f.holds(minute) for f in faults)]
            _lose(seen, minute - job.start, truth, fleet, (node, blind))
            if "agent_missing" in kinds:
                seen.agents[minute - job.start] -= 1
                seen.held[minute - job.start] -= _shares(fleet, node, devices)
    return seen


def _lose(
    seen: _Seen, place: int, truth: JobTruth, fleet: SimulatedFleet, lost: tuple[int, list[int]]
) -> None:
    node, blind = lost
    seen.gpus[place] -= _shares(fleet, node, blind)
    shares = fleet.nodes[node].shares
    seen.work[place] -= math.fsum(shares[d] * truth.share_of(node, d) for d in blind)
    seen.devices[place] -= len(blind)


def _shares(fleet: SimulatedFleet, node: int, devices: Iterable[int]) -> float:
    shares = fleet.nodes[node].shares
    return math.fsum(shares[device] for device in devices)
