"""Clock noise: the paper's Table I out of the simulator, and the same table from a run's own samples."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.validation import Product, noise
from tests.bench import clock_noise
from tests.bench.clock_noise import Way
from tests.validation.simulation import bench

SEEDS = range(1, 31)
AT_30, AT_5 = Way("", 30.0, 1), Way("", 5.0, 1)
OFTEN = Way("", 5.0, 10)
COUNTERS = Way("", 5.0, 10, cycles=True)
ACTIVE = 0.5
"""An OFU of 37 %."""


@pytest.fixture(scope="module")
def at_30() -> float:
    return clock_noise.interval_95(AT_30, ACTIVE, SEEDS)


@pytest.mark.slow
def test_30_s_apart_over_50_minutes_the_error_is_below_that_of_table_i(at_30: float) -> None:
    assert at_30 < 0.22


def test_it_is_the_one_of_the_formula(at_30: float) -> None:
    utilization = ACTIVE * clock_noise.CLOCK_HZ / clock_noise.TENSOR_CLOCK_HZ
    assert at_30 == pytest.approx(clock_noise.expected_95(AT_30, utilization), rel=0.25)


@pytest.mark.slow
def test_reads_that_are_closer_together_gain_and_cycle_counters_leave_nothing(
    at_30: float,
) -> None:
    at_5, often, counters = (
        clock_noise.interval_95(way, ACTIVE, SEEDS[:6]) for way in (AT_5, OFTEN, COUNTERS)
    )
    assert at_5 < at_30 / 1.5
    assert often < at_5 / 3
    assert counters < 0.005


def test_a_run_shows_the_noise_of_its_own_clock(tmp_path: Path) -> None:
    made = bench(tmp_path, pace=SamplingPace(1.0, 0.1))
    (trial,) = made.trials([Product("noise", "bf16", 8192, 8192, 8192, 900.0)])
    found = noise.noise(trial, made.rating)
    assert found is not None
    assert found.seconds == pytest.approx(899, abs=2)
    assert found.reads == pytest.approx(10 * found.seconds)
    assert found.mean_hz == pytest.approx(1352e6, abs=3e6)
    assert found.std_hz == pytest.approx(32e6, abs=2e6)
    assert found.lowest_hz < 1280e6
    assert found.highest_hz > 1420e6
    assert [each.interval_seconds for each in found.spreads] == [1.0, 5.0, 10.0, 20.0, 30.0]
    ratio = found.std_hz / found.mean_hz
    for each in found.spreads[2:]:
        expected = clock_noise.expected_std(found.utilization, ratio, each.reads)
        assert each.std == pytest.approx(expected, rel=0.35)


def test_means_of_every_nth_value_are_compared_with_all() -> None:
    source = random.Random(1)
    series = [source.gauss(0.5, 0.01) for _ in range(6000)]
    found = {each.interval_seconds: each for each in noise.spreads(series, 1.0)}
    assert 1.0 not in found, "that is the series itself"
    assert found[30.0].reads == 200
    means = [100 * statistics.fmean(series[first::30]) for first in range(30)]
    assert found[30.0].std == pytest.approx(statistics.pstdev(means), rel=1e-6)
    assert found[30.0].interval_95 == pytest.approx(1.96 * found[30.0].std)


def test_too_few_reads_tell_nothing() -> None:
    assert noise.spreads([0.5] * 20, 1.0) == ()
    assert [each.interval_seconds for each in noise.spreads([0.5] * 30, 1.0)] == [5.0]
