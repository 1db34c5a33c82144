"""Computes which node of a simulated fleet has which fault at which time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ofu_exporter.fleet.simulation.layout import FleetNode, named
from ofu_exporter.fleet.simulation.spec import FaultKind, SpecFile


@dataclass(frozen=True)
class NodeFault:
    """One fault of one node."""

    kind: FaultKind
    start: int
    """Minutes of the fleet; the fault lasts for [start, end)."""
    end: int
    devices: frozenset[int]
    clock_hz: float | None

    def holds(self, minute: float) -> bool:
        return self.start <= minute < self.end

    def overlap(self, start: int, end: int) -> range:
        """The minutes of [start, end) that have the fault."""
        return range(max(start, self.start), min(end, self.end))


Faults = Mapping[int, Sequence[NodeFault]]
"""By the number of the node."""


def faults_of(file: SpecFile, nodes: Sequence[FleetNode]) -> Faults:
    """The faults of every node with faults. Raises ConfigError for a node or GPU that does not exist."""
    by_node: dict[int, list[NodeFault]] = {}
    for place, spec in enumerate(file.content.faults):
        if spec.at >= file.content.length:
            raise file.error(("faults", place, "at"), "is after the end of the fleet")
        end = file.content.length if spec.lasts is None else spec.at + spec.lasts
        clock_hz = None if spec.clock_mhz is None else spec.clock_mhz * 1e6
        for number in named(file, ("faults", place), spec.nodes, nodes):
            devices = frozenset(_devices(nodes[number], spec.gpus))
            if not devices:
                text = f"{nodes[number].name} has no GPU {', '.join(map(str, spec.gpus))}"
                raise file.error(("faults", place, "gpus"), text)
            fault = NodeFault(spec.fault, spec.at, end, devices, clock_hz)
            by_node.setdefault(number, []).append(fault)
    return by_node


def _devices(node: FleetNode, gpus: Sequence[int]) -> Iterable[int]:
    wanted = {str(gpu) for gpu in gpus}
    return (d for d, gpu in enumerate(node.devices) if not wanted or gpu.index in wanted)
