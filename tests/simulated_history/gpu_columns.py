"""Makes what agents show of all GPUs and of themselves, and what rules make of single GPUs: by model, node and cluster.

All GPUs of a model stand for one that is as large as all of them.
"""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from ofu_exporter import __version__
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.layout import NodeFault
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.values.reasons import Reason
from tests.simulated_history.observed import SHORT, GrowingSum, ObservedJob, blind
from tests.simulated_history.series import ABSENT, RecordedSeries, together

LOOK = 5
"""Minutes between two looks at which GPUs have no job."""
SINCE_JOB = 6.25
"""Minutes after the end of a job from which on a GPU is looked at as one without a job."""
UNAVAILABLE = {
    "gpu_lost": Reason.LOST,
    "source_lost": Reason.UNREACHABLE,
    "counters_dead": Reason.IMPLAUSIBLE,
    "counters_frozen": Reason.IMPLAUSIBLE,
}
"""The reason that an agent gives for a GPU with such a fault."""


def gpu_series(fleet: SimulatedFleet, jobs: Sequence[ObservedJob]) -> Iterator[RecordedSeries]:
    """Every series of GPUs by model, of nodes, and of the cluster."""
    for model in sorted({node.model.names[0] for node in fleet.nodes}):
        yield from _Model(fleet, model, jobs).series()
    yield from _of_nodes(fleet)
    yield from _of_agents(fleet)


class _Model:
    """All GPUs of a model."""

    def __init__(self, fleet: SimulatedFleet, model: str, jobs: Sequence[ObservedJob]) -> None:
        self._fleet = fleet
        self._model = model
        self._minutes = fleet.spec.length + 1
        self._nodes = {
            number: node for number, node in enumerate(fleet.nodes) if node.model.names[0] == model
        }
        self._jobs = [job for job in jobs if next(iter(job.truth.job.devices)) in self._nodes]
        self._dark = {
            number: {minute: devices for minute, devices, _ in blind(faults, 0, self._minutes)}
            for number, faults in fleet.faults.items()
            if number in self._nodes
        }
        """Which devices are not measured, by node and minute."""
        self._size = math.fsum(share for node in self._nodes.values() for share in node.shares)

    def series(self) -> Iterator[RecordedSeries]:
        """What the rules read of them, and those that no job has."""
        cluster = {"cluster": self._fleet.spec.cluster}
        labels = {**cluster, "uuid": self._model}
        used, measured = self._used(), self._measured.values
        yield RecordedSeries("ofu_gpu_utilization_seconds_total", labels, 1, used)
        yield RecordedSeries("ofu_gpu_observed_seconds_total", labels, 1, measured[1:])
        labels |= {"model": self._model}
        yield RecordedSeries("gpu:ofu_gpu_share:ratio", labels, 0, self._shares())
        yield RecordedSeries("gpu:ofu_gpu_info:topk1", labels, 0, array("d", [1.0]) * self._minutes)
        jobless = self._jobless()
        nothing = array("d", [0.0]) * len(jobless)
        labels = {**cluster, "model": self._model}
        for name, hours in (("observed", jobless), ("utilized", nothing), ("idle", jobless)):
            yield RecordedSeries(f"model:jobless_{name}_gpus:avg1h", labels, 60, hours, 60)

    def _used(self) -> array[float]:
        """GPU-seconds of peak that jobs have used by each minute from the first on."""
        grown = array("d", [0.0]) * self._minutes
        for job in self._jobs:
            for minute in range(job.start + 1, min(job.end + 1, self._minutes)):
                grown[minute] += job.used.grown(minute, 1)
        return array("d", accumulate(grown[1:]))

    @cached_property
    def _measured(self) -> GrowingSum:
        """GPU-seconds that are measured."""
        gpus = array("d", [self._size]) * self._minutes
        for number, dark in self._dark.items():
            for minute, devices in dark.items():
                gpus[minute] -= math.fsum(self._nodes[number].shares[d] for d in devices)
        return GrowingSum.of(0, (MINUTE * each for each in gpus[:-1]))

    def _shares(self) -> array[float]:
        """GPUs that agents report, or reported in the last minutes."""
        shares = array("d", [self._size]) * self._minutes
        for number, node in self._nodes.items():
            for minute in without_agent(self._fleet.faults.get(number, ()), self._minutes):
                shares[minute] -= math.fsum(node.shares)
        return shares

    def _jobless(self) -> array[float]:
        """GPUs that are measured and that no job had in the last minutes: the mean over each hour of some looks."""
        looks = self._fleet.spec.length // LOOK + 1
        free = [
            self._measured.grown(LOOK * look, SHORT) / (SHORT * MINUTE) for look in range(looks)
        ]
        for number in self._nodes:
            busy: dict[int, frozenset[int]] = {}
            for truth, devices in self._fleet.shifts.get(number, ()):
                for start, end in truth.job.runs:
                    for look in range(
                        -(-start // LOOK), min(math.ceil((end + SINCE_JOB) / LOOK), looks)
                    ):
                        busy[look] = busy[look] | devices if look in busy else devices
            for look, busy_devices in busy.items():
                free[look] -= self._measured_share(number, busy_devices, LOOK * look)
        hours = range(self._fleet.spec.length // 60)
        return array(
            "d", (sum(max(0.0, f) for f in free[12 * h + 1 : 12 * h + 13]) / 12 for h in hours)
        )

    def _measured_share(self, number: int, devices: Iterable[int], minute: int) -> float:
        """How many GPUs some devices of a node are, each by the part of the last minutes in which it is measured."""
        shares, dark = self._nodes[number].shares, self._dark.get(number)
        if dark is None:
            return math.fsum(shares[device] for device in devices)
        minutes = [dark.get(each, ()) for each in range(minute - SHORT, minute)]
        return math.fsum(
            shares[device] * (1 - sum(device in each for each in minutes) / SHORT)
            for device in devices
        )


def without_agent(faults: Iterable[NodeFault], minutes: int) -> set[int]:
    """The minutes in which a node's agent is missing, except those in which the rules still use its last values."""
    missing = (fault for fault in faults if fault.kind == "agent_missing")
    return {minute for fault in missing for minute in fault.overlap(fault.start + SHORT, minutes)}


def _of_nodes(fleet: SimulatedFleet) -> Iterator[RecordedSeries]:
    """Every node with its model."""
    minutes = fleet.spec.length + 1
    ones = array("d", [1.0]) * minutes
    for number, node in enumerate(fleet.nodes):
        model = node.model.names[0]
        labels = {"cluster": fleet.spec.cluster, "instance": node.name, "model": model}
        missing = without_agent(fleet.faults.get(number, ()), minutes)
        shown = (ABSENT if minute in missing else 1.0 for minute in range(minutes))
        values = array("d", shown) if missing else ones
        yield RecordedSeries("node:ofu_gpu_info:topk1", labels, 0, values)


def _of_agents(fleet: SimulatedFleet) -> Iterator[RecordedSeries]:
    """What the agents say of themselves, and of GPUs that they cannot measure."""
    cluster, minutes = {"cluster": fleet.spec.cluster}, fleet.spec.length + 1
    agents = array("d", [float(len(fleet.nodes))]) * minutes
    unavailable: dict[str, list[RecordedSeries]] = {}
    for number, fault in ((number, each) for number, of in fleet.faults.items() for each in of):
        lasts = fault.overlap(0, minutes)
        if fault.kind == "agent_missing":
            for minute in lasts:
                agents[minute] -= 1
        elif fault.kind in UNAVAILABLE and len(lasts):
            share = math.fsum(fleet.nodes[number].shares[device] for device in fault.devices)
            values = array("d", [share]) * (min(lasts.stop, minutes - 1) - lasts.start)
            one = RecordedSeries("", {}, lasts.start + 1, values)
            unavailable.setdefault(UNAVAILABLE[fault.kind].value, []).append(one)
    for reason, series in sorted(unavailable.items()):
        labels = {**cluster, "reason": reason}
        yield RecordedSeries(
            "cluster:ofu_gpu_unavailable:sum", labels, *together(series, operator.add)
        )
    yield RecordedSeries("ofu_exporter_simulated", cluster, 0, array("d", [1.0]) * minutes)
    labels = {**cluster, "version": __version__}
    yield RecordedSeries("cluster:ofu_exporter_build_info:count", labels, 0, agents)
