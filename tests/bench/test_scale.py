"""The fleet that the cost of a fleet is measured with is one that the simulator takes."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.layout import nodes_of
from tests.bench import scale


def test_the_simulator_takes_the_measured_fleet(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(scale.specification(3))
    assert len(nodes_of(spec.read_spec(path))) == 3
