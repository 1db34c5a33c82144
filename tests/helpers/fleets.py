"""Makes simulated fleets from a few lines, for tests."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.agent import SimulatedAgent
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet, fleet_of

BEGIN = 1756252800.0
"""Unix time at which the fleets of tests begin: 2025-08-27, 00:00 UTC."""
HOUR = 3600.0
NODES = "nodes:\n  - {name: n, count: 2, model: H100, gpus: 4, partition: batch}\n"
ONE_JOB = NODES + "jobs:\n  - {name: train, users: [ada], gpus: 8, ofu: 0.4, noise: 0"
"""The beginning of a fleet of 8 GPUs with one job on all of them, whose line is to be completed."""


def read(text: str, folder: Path) -> spec.SpecFile:
    path = folder / "fleet.yaml"
    path.write_text(text)
    return spec.read_spec(path)


def fleet(text: str, folder: Path) -> SimulatedFleet:
    return fleet_of(read(text, folder))


def agent(simulated: SimulatedFleet, number: int = 0) -> SimulatedAgent:
    """The agent of a node, from the fleet's begin on."""
    return SimulatedAgent(simulated, number, BEGIN, 0.0)


def values(page: str, name: str) -> dict[str, float]:
    """The samples of one metric of a page, by their labels as they stand there."""
    samples = {}
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name:
            samples[series.partition("{")[2].rstrip("}")] = float(value)
    return samples


def page(of: SimulatedAgent, at: float) -> str:
    """The page of a node at a second of the fleet."""
    of.advance(at)
    return of.page.render("", "").body.decode()
