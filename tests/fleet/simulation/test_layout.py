"""Nodes have the GPUs that their group says, as a source would describe them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.layout import node_numbers, nodes_of
from tests.helpers.fleets import fleet, read

NODES = "nodes: [{name: a, count: 3, model: H100}, {name: b, count: 1, model: H100}]\n"


@pytest.mark.parametrize(
    ("names", "numbers"),
    [(["a1", "b1"], [0, 3]), (["a1..3"], [0, 1, 2]), (["a2..3", "a2"], [1, 2])],
)
def test_nodes_are_named_one_by_one_or_by_a_range(
    names: list[str], numbers: list[int], tmp_path: Path
) -> None:
    file = read(NODES, tmp_path)
    assert node_numbers(file, (), names, nodes_of(file)) == numbers


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a2..9", "no node a4"),
        ("c1", "no node c1"),
        ("a3..1", "names no node"),
        ("a1..999999999999", "no node a4"),
    ],
)
def test_a_name_that_no_node_has_is_refused(name: str, words: str, tmp_path: Path) -> None:
    file = read(NODES, tmp_path)
    with pytest.raises(ConfigError, match=words):
        node_numbers(file, (), [name], nodes_of(file))


def test_gpus_are_rated_as_their_model(tmp_path: Path) -> None:
    (node,) = fleet("nodes:\n  - {name: n, count: 1, model: H200, gpus: 8}\n", tmp_path).nodes
    assert node.tensor_clock_hz == pytest.approx(1830e6, rel=0.001)
    assert len({gpu.uuid for gpu in node.devices}) == 8
    assert all(gpu.uuid.startswith("SIMULATED-") for gpu in node.devices)
    assert node.shares == (1.0,) * 8


def test_a_divided_gpu_has_its_instances(tmp_path: Path) -> None:
    text = "nodes:\n  - {name: n, count: 1, model: H100, gpus: 2, mig: [3g.40gb, 1g.10gb]}\n"
    (node,) = fleet(text, tmp_path).nodes
    assert [gpu.profile for gpu in node.devices] == ["3g.40gb", "1g.10gb"] * 2
    assert node.shares == pytest.approx((3 / 7, 1 / 7) * 2)
    assert len({gpu.mig_uuid for gpu in node.devices}) == 4
