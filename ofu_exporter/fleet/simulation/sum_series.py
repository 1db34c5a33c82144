"""Makes the series that the recording rules keep of single GPUs' counters: by GPU model, node and cluster."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from ofu_exporter import __version__
from ofu_exporter.fleet.simulation.faults import NodeFault
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.job_series import LONG, SHORT
from ofu_exporter.fleet.simulation.observed import GrowingSum, ObservedJob
from ofu_exporter.fleet.simulation.series import ABSENT, RecordedSeries, Totals
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.values.reasons import Reason

TARGET = 0.4
"""The OFU that the rules count waste against (target.yaml)."""
UNAVAILABLE = {
    "gpu_lost": Reason.LOST,
    "source_lost": Reason.UNREACHABLE,
    "counters_dead": Reason.IMPLAUSIBLE,
    "counters_frozen": Reason.IMPLAUSIBLE,
}
"""The reason that an agent gives for a GPU with such a fault."""


class GpuSums:
    """Sums over all GPUs by model, held by a job or not."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet
        self._minutes = fleet.spec.length + 1
        names = [node.model.names[0] for node in fleet.nodes]
        self.models = sorted(set(names))
        self._known = {model: self._shares(model) for model in self.models}
        self._used = {model: array("d", [0.0]) * self._minutes for model in self.models}
        self._taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """By node and device, the minutes in which a look finds that a job had it in the last minutes."""
        self._compared = {model: [Totals(self._minutes) for _ in range(3)] for model in self.models}

    def _shares(self, model: str) -> float:
        nodes = (node for node in self._fleet.nodes if node.model.names[0] == model)
        return math.fsum(share for node in nodes for share in node.shares)

    def add(self, job: ObservedJob) -> None:
        """Take in what a job does on its GPUs."""
        for model, part in self._parts(job).items():
            used = self._used[model]
            for minute in range(job.start + 1, min(job.end + SHORT, self._minutes)):
                used[minute] += part * job.used.grown(minute, SHORT) / (SHORT * MINUTE)
            if job.reported:
                self._add_compared(job, model, part)

        for node, devices in job.truth.job.devices.items():
            runs = [(start, end + SHORT) for start, end in job.truth.job.runs]
            for device in devices:
                self._taken.setdefault((node, device), []).extend(runs)

    def _parts(self, job: ObservedJob) -> Mapping[str, float]:
        """The part of the job that is on each model."""
        parts: dict[str, float] = {}
        for node, devices in job.truth.job.devices.items():
            shares = self._fleet.nodes[node].shares
            model = self._fleet.nodes[node].model.names[0]
            parts[model] = parts.get(model, 0.0) + math.fsum(shares[d] for d in devices)
        return {model: shares / job.truth.gpu_shares for model, shares in parts.items()}

    def _add_compared(self, job: ObservedJob, model: str, part: float) -> None:
        first = job.reported[0][0] + 1
        last = min(job.end + SHORT + LONG - 1, self._minutes - 1)
        all_sums: tuple[GrowingSum, ...] = (job.compared_mfu, job.compared_used, job.compared)
        for totals, sums in zip(self._compared[model], all_sums, strict=True):
            values = array(
                "d", (part * sums.grown(t, LONG) / (LONG * MINUTE) for t in range(first, last + 1))
            )
            totals.add(RecordedSeries("", {}, first, values))

    def measured(self, model: str) -> array[float]:
        """GPUs of a model that are measured, the mean over the last minutes."""
        lost = self._lost(model)
        done = GrowingSum(0, array("d", _accumulated(self._known[model] - each for each in lost)))
        return array(
            "d",
            (
                done.grown(minute, SHORT) / SHORT if minute else ABSENT
                for minute in range(self._minutes)
            ),
        )

    def jobless(self, model: str) -> array[float]:
        """GPUs of a model that are measured and that no job had in the last minutes."""
        grown = array("d", [0.0]) * (self._minutes + 1)
        for (number, device), runs in self._taken.items():
            node = self._fleet.nodes[number]
            if node.model.names[0] != model:
                continue
            faults = [f for f in self._fleet.faults.get(number, ()) if device in f.devices]
            for start, end in _merged(runs, self._minutes):
                grown[start] += node.shares[device]
                grown[end] -= node.shares[device]
                for minute in range(start, end) if faults else ():
                    lost = node.shares[device] * _blind(faults, minute)
                    grown[minute] -= lost
                    grown[minute + 1] += lost
        taken = accumulate(grown)
        return array(
            "d",
            (
                max(0.0, gpus - of_jobs)
                for gpus, of_jobs in zip(self.measured(model), taken, strict=False)
            ),
        )

    def used(self, model: str) -> array[float]:
        """GPUs' worth of peak that is used."""
        values = array("d", self._used[model])
        values[0] = ABSENT
        return values

    def _lost(self, model: str) -> array[float]:
        """GPUs of a model that are not measured, in each minute."""
        lost = array("d", [0.0]) * self._minutes
        for number, faults in self._fleet.faults.items():
            node = self._fleet.nodes[number]
            if node.model.names[0] != model:
                continue
            for minute in range(self._minutes):
                kinds = (*UNAVAILABLE, "agent_missing")
                active = [f for f in faults if f.kind in kinds and f.holds(minute)]
                blind = frozenset[int]().union(*(f.devices for f in active))
                lost[minute] += math.fsum(node.shares[device] for device in blind)
        return lost

    def series(self) -> Iterator[RecordedSeries]:
        """Every series of models and of the cluster."""
        cluster = {"cluster": self._fleet.spec.cluster}
        for model in self.models:
            labels = {**cluster, "model": model}
            used, measured = self.used(model), self.measured(model)
            yield RecordedSeries("model:ofu_gpu_utilization_seconds:rate5m", labels, 0, used)
            yield RecordedSeries("model:ofu_gpu_observed_seconds:rate5m", labels, 0, measured)
            reported = self._told_of(model)
            yield RecordedSeries("model:ofu_gpu_share:sum", labels, 0, reported)
            yield from self._compared_series(model, labels)
        yield from self._of_agents(cluster)

    def _told_of(self, model: str) -> array[float]:
        """GPUs of a model that agents report, or reported in the last minutes."""
        reported = array("d", [self._known[model]]) * self._minutes
        for number, faults in self._fleet.faults.items():
            node = self._fleet.nodes[number]
            if node.model.names[0] == model:
                for minute in untold(faults, self._minutes):
                    reported[minute] -= math.fsum(node.shares)
        return reported

    def _compared_series(self, model: str, labels: Mapping[str, str]) -> Iterator[RecordedSeries]:
        mfu, used, seconds = (totals.values for totals in self._compared[model])
        name = "model:ofu_job_compared"
        yield RecordedSeries(f"{name}_mfu_seconds:rate15m", labels, 0, mfu)
        yield RecordedSeries(f"{name}_utilization_seconds:rate15m", labels, 0, used)
        yield RecordedSeries(f"{name}_gpu_seconds:rate15m", labels, 0, seconds)

    def _of_agents(self, cluster: Mapping[str, str]) -> Iterator[RecordedSeries]:
        """What the agents say of themselves, and of GPUs that they cannot measure."""
        reasons: dict[str, Totals] = {}
        agents = array("d", [float(len(self._fleet.nodes))]) * self._minutes
        for number, faults in self._fleet.faults.items():
            node = self._fleet.nodes[number]
            for fault in faults:
                minutes = fault.overlap(0, self._minutes)
                if fault.kind == "agent_missing":
                    for minute in minutes:
                        agents[minute] -= 1
                elif fault.kind in UNAVAILABLE and len(minutes):
                    share = math.fsum(node.shares[device] for device in fault.devices)
                    one = array("d", [share]) * len(minutes)
                    reason = UNAVAILABLE[fault.kind].value
                    totals = reasons.setdefault(reason, Totals(self._minutes))
                    totals.add(RecordedSeries("", {}, minutes[0] + 1, one))
        for reason, totals in sorted(reasons.items()):
            labels = {**cluster, "reason": reason}
            yield RecordedSeries("cluster:ofu_gpu_unavailable:sum", labels, 0, totals.values)
        ones = array("d", [1.0]) * self._minutes
        yield RecordedSeries("cluster:ofu_exporter_simulated:max", cluster, 0, ones)
        labels = {**cluster, "version": __version__}
        yield RecordedSeries("cluster:ofu_exporter_build_info:count", labels, 0, agents)
        yield RecordedSeries("fleet:ofu_target:ratio", {}, 0, array("d", [TARGET]) * self._minutes)


def _merged(runs: Iterable[tuple[int, int]], minutes: int) -> Iterator[tuple[int, int]]:
    """The minutes that are in any of some runs, as runs of which none touches another, up to a minute."""
    begin, until = 0, 0
    for start, end in sorted(runs):
        if start > until:
            yield begin, until
            begin = start
        until = max(until, min(end, minutes))
    yield begin, until


def _blind(faults: Iterable[NodeFault], minute: int) -> float:
    """The part of the last minutes in which a device was not measured."""
    kinds = (*UNAVAILABLE, "agent_missing")
    blind = [fault for fault in faults if fault.kind in kinds]
    minutes = range(minute - SHORT, minute)
    return sum(any(fault.holds(each) for fault in blind) for each in minutes) / SHORT


def untold(faults: Iterable[NodeFault], minutes: int) -> set[int]:
    """The minutes in which a node's agent is missing, except those in which the rules still use its last values."""
    missing = (fault for fault in faults if fault.kind == "agent_missing")
    return {minute for fault in missing for minute in fault.overlap(fault.start + SHORT, minutes)}


def node_series(fleet: SimulatedFleet) -> Iterator[RecordedSeries]:
    """What the rules keep of every node: its model."""
    minutes = fleet.spec.length + 1
    ones = array("d", [1.0]) * minutes
    for number, node in enumerate(fleet.nodes):
        labels = {
            "cluster": fleet.spec.cluster,
            "instance": node.name,
            "model": node.model.names[0],
        }
        values = ones
        if missing := untold(fleet.faults.get(number, ()), minutes):
            values = array("d", ones)
            for minute in missing:
                values[minute] = ABSENT
        yield RecordedSeries("node:ofu_gpu_info:topk1", labels, 0, values)


def _accumulated(values: Iterator[float]) -> Iterator[float]:
    total = 0.0
    yield total
    for value in values:
        total += value
        yield total
