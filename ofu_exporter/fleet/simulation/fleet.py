"""Puts a simulated fleet together: nodes, jobs with their GPUs, faults, and the true values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ofu_exporter.fleet.simulation.jobs import drafts
from ofu_exporter.fleet.simulation.layout import Faults, FleetNode, faults_of, nodes_of
from ofu_exporter.fleet.simulation.placement import placed
from ofu_exporter.fleet.simulation.spec import FleetSpec, SpecFile
from ofu_exporter.fleet.simulation.truth import JobTruth, truth_of


class Shift(NamedTuple):
    truth: JobTruth
    devices: frozenset[int]


@dataclass(frozen=True)
class SimulatedFleet:
    spec: FleetSpec
    nodes: tuple[FleetNode, ...]
    faults: Faults
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
