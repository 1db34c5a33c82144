"""Puts a simulated fleet together: its nodes, and what every job truly does, minute by minute, and reports.

The GPUs of a job do the same work in the same time, as in synchronous training, so they have the same OFU. A GPU with
a lower clock therefore has a higher activity. A GPU with a limited clock slows all others down.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from ofu_exporter.fleet.simulation.jobs import drafts
from ofu_exporter.fleet.simulation.layout import FleetNode, NodeFaults, faults_of, nodes_of
from ofu_exporter.fleet.simulation.placement import PlacedJob, placed
from ofu_exporter.fleet.simulation.runs import STARTS, RunMinutes, minutes_of
from ofu_exporter.fleet.simulation.spec import MINUTE, FleetSpec, SpecFile
from ofu_exporter.values import quantities

DAY_MINUTES = 1440
QUIET = 0.25
"""Load of an inference job at its quietest minute of the day, as a share of the load at the busiest."""
MOST_NOISE = 3.0
"""Standard deviations; noise beyond them is cut."""


@dataclass(frozen=True)
class JobTruth:
    """One job with the OFU of its GPUs in each minute, from its start on."""

    job: PlacedJob
    ofu: array[float]
    """OFU of a GPU of the job, except for a straggler; 0 while the job does not run."""
    done: array[float]
    """Integral of `ofu` up to the beginning of each minute, in seconds."""
    is_running: bytes
    """1 for each minute in which the job holds its GPUs."""
    minutes: RunMinutes
    gpu_shares: float
    """GPUs of the job, where an instance counts as its share."""
    mean_share: float
    """Mean over the job's GPUs, as a share of a GPU that is not a straggler."""
    straggler: tuple[int, int] | None
    """Node and device of the GPU that is slower than the others."""

    @property
    def mfu_over_ofu(self) -> float:
        draft = self.job.draft
        return draft.mfu / draft.ofu if draft.ofu else 0.0

    @property
    def reported_over_ofu(self) -> float:
        return self.mfu_over_ofu * self.job.draft.reported_over_right

    def integral(self, until: float) -> float:
        """Integral of a GPU's OFU from the job's start to a second of the fleet."""
        into = min(max(until - MINUTE * self.job.start, 0.0), float(MINUTE * len(self.ofu)))
        minute, seconds = divmod(into, MINUTE)
        place = int(minute)
        more = self.ofu[place] * seconds if seconds else 0.0
        return self.done[place] + more

    def mean(self, start: float, end: float) -> float:
        """The mean OFU of a GPU between two seconds of the fleet."""
        return (self.integral(end) - self.integral(start)) / (end - start)

    def busy(self, active: float, pause: float = 1.0) -> tuple[float, float]:
        """Engine and SM activity of a GPU of the job whose tensor pipes are active for this share of the time.

        `pause` says how long it waits, over how long it does on average.
        """
        group = self.job.draft.group
        if group.work == "idle":
            return 0.0, 0.0
        engine = max(1.0 - pause * group.idle, active)
        return engine, max(engine - group.empty_sms, active)

    def share_of(self, node: int, device: int) -> float:
        """The work of a device, as a share of the others' work."""
        spec = self.job.draft.group.straggler
        if spec is None or spec.share is None or self.straggler != (node, device):
            return 1.0
        return spec.share

    def limit_hz(self, node: int, device: int) -> float:
        """The highest clock of a device, as limited by the job itself."""
        straggler = self.job.draft.group.straggler
        if straggler is None or straggler.clock_mhz is None or self.straggler != (node, device):
            return math.inf
        return straggler.clock_mhz * 1e6

    def reported_mfu(self, minute: int, seed: int) -> float | None:
        """The MFU that it reports at a minute, for the time since its last report; None if it does not report then."""
        reporting = self.job.draft.group.report
        run = next((run for run in self.job.runs if run[0] < minute < run[1]), None)
        if reporting is None or run is None or minute not in self.report_minutes(*run):
            return None
        mean = self.mean(MINUTE * (minute - reporting.every), MINUTE * minute) * self.mean_share
        chance = random.Random(f"{seed}/report/{self.job.draft.job_id}/{minute}")
        return max(0.0, mean * self.reported_over_ofu * (1 + reporting.noise * chance.gauss(0, 1)))

    def report_minutes(self, begin: int, end: int) -> range:
        """The minutes of a run at which it reports, if it reports at all."""
        group = self.job.draft.group
        every = group.report.every if group.report else end
        return range(begin + every + (group.crashes.start if group.crashes else 0), end, every)

    def report_body(self, minute: int, spec: FleetSpec, begin_unix: float) -> dict[str, Any] | None:
        """The body of its report at a minute of the fleet, the same on each of its nodes; None = no report."""
        mfu = self.reported_mfu(minute, spec.seed)
        reporting = self.job.draft.group.report
        if mfu is None or reporting is None:
            return None
        body: dict[str, Any] = {
            "job_id": self.job.draft.job_id,
            "mfu": quantities.written(mfu),
            "start": begin_unix + MINUTE * (minute - reporting.every),
            "end": begin_unix + MINUTE * minute,
            "precision": reporting.precision,
            "gpus": max(1, round(self.gpu_shares)),
        }
        if reporting.step is not None:
            worked = MINUTE * self.minutes.reached[minute - self.job.start]
            body["step"] = int(worked // reporting.step)
        if reporting.framework:
            body["framework"] = reporting.framework
        if reporting.recompute is not None:
            body["recompute"] = reporting.recompute
        if reporting.model is not None:
            model = spec.models[reporting.model]
            body["model"] = {"config": model.config, "seq_len": model.seq_len}
        return body


def truth_of(job: PlacedJob, nodes: Sequence[FleetNode], faults: NodeFaults, seed: int) -> JobTruth:
    """What a job truly does. `seed` is the fleet's."""
    devices = [(node, device) for node, of_node in job.devices.items() for device in of_node]
    shares = [nodes[node].shares[device] for node, device in devices]
    spec = job.draft.group.straggler
    straggler = devices[spec.gpu] if spec else None
    running = bytearray(job.end - job.start)
    for start, end in job.runs:
        running[start - job.start : end - job.start] = b"\1" * (end - start)
    pace, minutes = _pace(job, faults), minutes_of(job)
    chance = random.Random(f"{seed}/truth/{job.draft.job_id}")
    noise = job.draft.group.noise
    ofu = array("d")
    for place, factor in enumerate(pace):
        z = min(max(chance.gauss(0, 1), -MOST_NOISE), MOST_NOISE)
        works = minutes.doing[place] > STARTS
        ofu.append(job.draft.ofu * factor * (1 + noise * z) * works)
    done = array("d", accumulate((MINUTE * each for each in ofu), initial=0.0))
    gpus = math.fsum(shares)
    mean_share = 1.0
    if spec is not None and spec.share is not None:
        mean_share -= (1 - spec.share) * shares[spec.gpu] / gpus
    return JobTruth(job, ofu, done, bytes(running), minutes, gpus, mean_share, straggler)


def _pace(job: PlacedJob, faults: NodeFaults) -> list[float]:
    """The speed of the job in each of its minutes; 1 = undisturbed."""
    group = job.draft.group
    pace = [1.0] * (job.end - job.start)
    if group.work == "inference":
        pace = [_daily(minute) for minute in range(job.start, job.end)]
    for change in group.changes:
        for place in range(change.at, len(pace)):
            pace[place] *= change.factor
    clock_hz = job.draft.clock_hz
    lowest = [clock_hz] * len(pace)
    if group.straggler is not None and group.straggler.clock_mhz is not None:
        lowest = [min(clock_hz, group.straggler.clock_mhz * 1e6)] * len(pace)
    for node, devices in job.devices.items():
        for fault in faults.get(node, ()):
            if fault.clock_hz is not None and not fault.devices.isdisjoint(devices):
                for minute in fault.overlap(job.start, job.end):
                    place = minute - job.start
                    lowest[place] = min(lowest[place], fault.clock_hz)
    return [factor * clock / clock_hz for factor, clock in zip(pace, lowest, strict=True)]


def _daily(minute: int) -> float:
    return QUIET + (1 - QUIET) * 0.5 * (1 - math.cos(2 * math.pi * minute / DAY_MINUTES))


class Shift(NamedTuple):
    truth: JobTruth
    devices: frozenset[int]


@dataclass(frozen=True)
class SimulatedFleet:
    spec: FleetSpec
    nodes: tuple[FleetNode, ...]
    faults: NodeFaults
    jobs: tuple[JobTruth, ...]
    shifts: Mapping[int, Sequence[Shift]]
    """What runs on each node, by its number."""


def fleet_of(file: SpecFile) -> SimulatedFleet:
    """The fleet of a specification. Raises ConfigError for an impossible value, with its line."""
    nodes = nodes_of(file)
    faults = faults_of(file, nodes)
    jobs = tuple(
        truth_of(job, nodes, faults, file.content.seed)
        for job in placed(file, nodes, tuple(drafts(file, nodes)))
    )
    shifts: dict[int, list[Shift]] = {}
    for truth in jobs:
        for node, devices in truth.job.devices.items():
            shifts.setdefault(node, []).append(Shift(truth, frozenset(devices)))
    return SimulatedFleet(file.content, nodes, faults, jobs, shifts)
