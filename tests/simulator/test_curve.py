"""The truth, by closed form, against sums over milliseconds and against hand computation."""

from __future__ import annotations

import ast
import math
import random
from pathlib import Path

import pytest

from tests.simulator.curve import TENSOR_CLOCK_MHZ, Curve, Level
from tests.simulator.loads import LOADS, SECONDS, Load

STEP = 1e-3


def summed(curve: Curve, start: float, end: float) -> tuple[float, float, float]:
    """OFU, tensor activity and busy time, from what holds in the middle of each millisecond."""
    seen = [curve.at(start + (k + 0.5) * STEP) for k in range(round((end - start) / STEP))]
    cycles = math.fsum(each.mhz for each in seen)
    tensor = math.fsum(each.mhz * each.tensor for each in seen)
    busy = sum(each.tensor > 0 for each in seen) / len(seen)
    return tensor / len(seen) / TENSOR_CLOCK_MHZ, tensor / cycles, busy


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_integrals_are_what_sums_over_milliseconds_come_to(load: Load) -> None:
    chance = random.Random(load.name)
    for seconds in (0.5, 1.0, 5.0, 60.0):
        start = round(chance.uniform(0, 590), 3)
        found = (
            load.curve.utilization(start, start + seconds),
            load.curve.tensor_active(start, start + seconds),
            load.curve.busy(start, start + seconds),
        )
        # Wherever a level ends inside a millisecond, up to half of it is taken for its neighbour.
        assert found == pytest.approx(summed(load.curve, start, start + seconds), abs=1e-3)


def test_a_mean_counts_cycles_and_not_time() -> None:
    """1 s of 0.9 at 1000 MHz and 1 s of 0.1 at 3000 MHz: 900 + 300 of 4000 cycles."""
    curve = Curve([Level(1, 0.9, 1000), Level(1, 0.1, 3000)])
    assert curve.tensor_active(0, 2) == pytest.approx(0.3)
    assert curve.utilization(0, 2) == pytest.approx(600 / TENSOR_CLOCK_MHZ)
    assert curve.utilization(0.5, 1.5) == pytest.approx(600 / TENSOR_CLOCK_MHZ)


@pytest.mark.parametrize(
    ("levels", "truth"),
    [
        ((Level(5.3, 0.9, 1400), Level(5.3, 0.05, 1980)), 0.3735),
        ((Level(5.3, 0.8, 1905), Level(5.3, 0, 345)), 0.4193),
        ((Level(10, 0.6, 1350), Level(10, 0.45, 1500)), 0.4057),
    ],
)
def test_ten_minutes_by_hand(levels: tuple[Level, Level], truth: float) -> None:
    """For the first: 302.1 s of 0.9 x 1400 and 297.9 s of 0.05 x 1980, over 600 s of 1830."""
    assert Curve(levels * 60).utilization(0, 600) == pytest.approx(truth, abs=5e-5)


def test_time_goes_on_after_the_last_level() -> None:
    curve = Curve([Level(1, 0, 345), Level(1, 0.5, 1830)])
    assert curve.utilization(2, 10) == pytest.approx(0.5)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_load_lasts_and_is_the_same_each_time(load: Load) -> None:
    assert load.curve.seconds >= SECONDS
    assert Load(load.name, load.shape, load.mild).curve.levels == load.curve.levels
    assert all(0 <= each.tensor <= 1 and each.seconds > 0 for each in load.curve.levels)


def test_clock_noise_is_the_papers() -> None:
    for name in ("clock noise", "slower clock noise"):
        load = next(each for each in LOADS if each.name == name)
        clocks = [each.mhz for each in load.curve.levels]
        mean = math.fsum(clocks) / len(clocks)
        std = math.sqrt(math.fsum((each - mean) ** 2 for each in clocks) / len(clocks))
        assert mean == pytest.approx(1352, abs=3)
        assert std == pytest.approx(32, abs=1.5)


def test_the_judge_takes_nothing_from_the_judged() -> None:
    """Only agent.py and reporting.py import the package, to run it."""
    for path in Path(__file__).parent.glob("*.py"):
        if path.name in ("agent.py", "reporting.py") or path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("ofu_exporter"), path
