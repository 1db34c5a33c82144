"""Makes the nodes of a simulated fleet: their GPUs or MIG instances as a source would describe them, and faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ofu_exporter.fleet.simulation.spec import FaultKind, FleetSpec, NodeGroup, SpecFile
from ofu_exporter.hardware.gpu_models import by_short_name, find_row, rate
from ofu_exporter.hardware.gpu_spec import GpuModel
from ofu_exporter.hardware.mig_shares import shares
from ofu_exporter.support.checked_yaml import YamlPath
from ofu_exporter.values.gpu import LOW_PRECISION, Gpu, Rating

_RANGE = re.compile(r"(?P<name>.*?)(?P<first>\d+)\.\.(?P<last>\d+)")
MOST_DEVICES = 200_000
"""Most GPUs and instances of a fleet, which is held in memory."""
UUID = "SIMULATED"
"""Every uuid begins with it."""


@dataclass(frozen=True)
class FleetNode:
    """One node: its GPUs or instances, as its agent would find them."""

    name: str
    partition: str
    devices: tuple[Gpu, ...]
    rating: Rating
    model: GpuModel

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Part of a whole GPU that each device counts as."""
        share_of = shares(self.devices)
        return tuple(share_of[gpu.key].ratio for gpu in self.devices)

    @property
    def tensor_clock_hz(self) -> float:
        return self.rating.tensor_clock_hz[LOW_PRECISION]

    @property
    def max_clock_hz(self) -> float:
        return self.model.max_sm_clock_hz or self.tensor_clock_hz


def nodes_of(file: SpecFile) -> tuple[FleetNode, ...]:
    """Every node of the fleet. Raises ConfigError for an unknown GPU, and for a duplicate name."""
    nodes: list[FleetNode] = []
    names: set[str] = set()
    most = 0
    for place, group in enumerate(file.content.nodes):
        model, rating = _model(file, place, group)
        most += group.count * group.gpus * max(1, len(group.mig))
        if most > MOST_DEVICES:
            raise file.error(("nodes", place, "count"), f"more than {MOST_DEVICES:,} GPUs")
        for number in range(1, group.count + 1):
            name = f"{group.name}{number}"
            if name in names:
                raise file.error(("nodes", place, "name"), f"node {name} is listed twice")
            names.add(name)
            devices = tuple(_devices(file.content, group, name, model))
            if any(share.basis == "instances" for share in shares(devices).values()):
                text = "these instances do not fit into the GPU"
                raise file.error(("nodes", place, "mig"), text)
            nodes.append(FleetNode(name, group.partition, devices, rating, model))
    return tuple(nodes)


def _model(file: SpecFile, place: int, group: NodeGroup) -> tuple[GpuModel, Rating]:
    short = by_short_name(group.model)
    sample = Gpu(index="0", uuid="", name=short[0] if short else group.model)
    model, rating = find_row(sample), rate(sample)
    if model is None or model.tensor_clock_hz is None or rating is None:
        raise file.error(("nodes", place, "model"), f"no GPU {group.model!r} with a tensor clock")
    return model, rating


def _devices(spec: FleetSpec, group: NodeGroup, node: str, model: GpuModel) -> Iterable[Gpu]:
    for index in range(group.gpus):
        whole = Gpu(
            index=str(index),
            uuid=f"{UUID}-{spec.seed}-{node}-{index}",
            name=model.names[0],
            pci_bus_id=f"00000000:{index + 1:02X}:00.0",
            pci_device_id=model.pci_device_ids[0] if len(model.pci_device_ids) == 1 else "",
            driver="simulated",
            sm_count=model.sm_count,
            compute_capability=model.chip.compute_capability,
            max_sm_clock_hz=model.max_sm_clock_hz,
            memory_bytes=model.memory_gib[0] << 30 if model.memory_gib else None,
        )
        yield from _divided(whole, group.mig) if group.mig else [whole]


def _divided(whole: Gpu, profiles: Sequence[str]) -> Iterable[Gpu]:
    gpu = replace(whole, sm_count=None, memory_bytes=None)
    for number, profile in enumerate(profiles, 1):
        mig_uuid = f"MIG-{whole.uuid}-{number}"
        yield replace(gpu, instance=str(number), profile=profile, mig_uuid=mig_uuid)


def node_numbers(
    file: SpecFile, place: YamlPath, names: Iterable[str], nodes: Sequence[FleetNode]
) -> list[int]:
    """The numbers of nodes by name, where `a1..4` stands for a1 to a4.

    `place` is that of the part of the specification that names them. Raises ConfigError for a name that no node has.
    """
    number_of = {node.name: number for number, node in enumerate(nodes)}
    chosen: dict[int, None] = {}
    for name in names:
        match = _RANGE.fullmatch(name)
        each = [name]
        if match:
            last = min(int(match["last"]), int(match["first"]) + len(nodes))
            each = [f"{match['name']}{n}" for n in range(int(match["first"]), last + 1)]
        for one in each:
            if one not in number_of:
                raise file.error((*place, "nodes"), f"no node {one}")
            chosen[number_of[one]] = None
    if not chosen:
        raise file.error((*place, "nodes"), "names no node")
    return list(chosen)


@dataclass(frozen=True)
class NodeFault:
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


NodeFaults = Mapping[int, Sequence[NodeFault]]
"""By the number of the node."""


def faults_of(file: SpecFile, nodes: Sequence[FleetNode]) -> NodeFaults:
    """The faults of every node with faults. Raises ConfigError for a node or GPU that does not exist."""
    by_node: dict[int, list[NodeFault]] = {}
    for place, spec in enumerate(file.content.faults):
        if spec.at >= file.content.length:
            raise file.error(("faults", place, "at"), "is after the end of the fleet")
        end = file.content.length if spec.lasts is None else spec.at + spec.lasts
        clock_hz = None if spec.clock_mhz is None else spec.clock_mhz * 1e6
        wanted = {str(gpu) for gpu in spec.gpus}
        for number in node_numbers(file, ("faults", place), spec.nodes, nodes):
            gpus = enumerate(nodes[number].devices)
            devices = frozenset(at for at, gpu in gpus if not wanted or gpu.index in wanted)
            if not devices:
                text = f"{nodes[number].name} has no GPU {', '.join(map(str, spec.gpus))}"
                raise file.error(("faults", place, "gpus"), text)
            fault = NodeFault(spec.fault, spec.at, end, devices, clock_hz)
            by_node.setdefault(number, []).append(fault)
    return by_node
