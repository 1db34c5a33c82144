"""Random products whose MFU is known: an OFU adjusted by a profile of them is that MFU."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.hardware import tiles
from ofu_exporter.sources.simulate import driver
from ofu_exporter.traces import formats, kernel_names
from ofu_exporter.traces.tile_overhead import overhead
from ofu_exporter.values.reading import Reading
from tests.sources.simulate import gemms
from tests.sources.simulate.gemms import Loop
from tests.sources.simulate.test_driver import Node, of
from tests.traces.formats.tracing import kernel, operator

F_T = 1830e6
"""Tensor clock of the simulated H100."""
FLOPS_PER_CYCLE = 132 * 4096
SECONDS = 600.0
LOOPS = 12
"""How many products each GPU runs in turn."""


def profile_of(loops: tuple[Loop, ...], path: Path) -> Path:
    """A trace of one turn: as many launches of each product as its share of the tensor cycles holds."""
    events: list[dict[str, Any]] = []
    for loop in loops:
        flops = loop.seconds * loop.tensor_active * 1352e6 * FLOPS_PER_CYCLE
        gemm = loop.gemm
        for _ in range(round(flops / loop.executed_flops / 100)):
            number = len(events) + 1
            events += [
                operator("aten::mm", number, [gemm.n, gemm.k], [gemm.k, gemm.m]),
                kernel(loop.kernel, number),
            ]
    path.write_text(json.dumps(events))
    return path


def ofu(readings: list[Reading]) -> float:
    """Over all windows: tensor activity times mean clock over the tensor clock."""
    done = math.fsum(
        (each.tensor_active or 0.0)
        * math.fsum(sample.hz for sample in each.clocks)
        / len(each.clocks)
        * (each.end - each.start)
        for each in readings
    )
    return done / (F_T * math.fsum(each.end - each.start for each in readings))


def test_products_are_drawn_as_the_paper_draws_them() -> None:
    loops = gemms.draw(random.Random(1), 300)
    for loop in loops:
        assert not any(side % 16 for side in (loop.gemm.m, loop.gemm.n, loop.gemm.k))
        assert kernel_names.parse(loop.kernel).bound == "exact"
        assert 0.5 < loop.useful_share <= 1
    overheads = [1 / loop.useful_share - 1 for loop in loops]
    assert 0.01 < math.fsum(overheads) / len(overheads) < 0.1
    assert gemms.draw(random.Random(1), 300) == loops


def test_every_kernel_is_of_the_simulated_gpu() -> None:
    for name in gemms.KERNELS:
        kernel_ = kernel_names.parse(name)
        assert (kernel_.architecture, kernel_.precision) == ("sm90", "bf16")


@pytest.mark.slow
def test_an_adjusted_ofu_is_the_mfu_where_a_raw_one_is_not(tmp_path: Path) -> None:
    node = Node(simulated_gpus=4)
    loops = [gemms.draw(random.Random(index), LOOPS) for index in range(4)]
    node.probes = [
        driver.Probe(index, driver.Options(), node.clock, [loop.phase for loop in each])
        for index, each in enumerate(loops)
    ]
    readings = node.run(SECONDS)
    for index, probe in enumerate(node.probes):
        mfu = probe.useful_cycles / (SECONDS * F_T)
        seen = overhead([formats.read(profile_of(loops[index], tmp_path / f"{index}.json"))])
        assert seen.overhead_ratio is not None
        assert seen.bound == "exact"
        raw = ofu(of(readings, index))
        adjusted = tiles.adjusted_utilization(raw, seen.overhead_ratio)
        assert abs(adjusted - mfu) < 0.002
        assert abs(adjusted - mfu) < abs(raw - mfu) / 10
        assert raw > mfu


def test_other_work_fills_its_tiles() -> None:
    node = Node(simulated_gpus=1)
    readings = node.run(60.0)
    (probe,) = node.probes
    assert probe.useful_cycles == pytest.approx(ofu(readings) * 60.0 * F_T, rel=0.02)
