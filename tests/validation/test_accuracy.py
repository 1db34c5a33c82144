"""Table II, the curves and the bounds, from results that are known."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.validation import Product, Tiling, TrialKind, accuracy
from ofu_exporter.validation.accuracy import AccuracyRow, ErrorBounds
from ofu_exporter.validation.results import Result
from ofu_exporter.values.reported import Bound
from tests.bench import clock_noise
from tests.bench.clock_noise import Way
from tests.helpers.every import every
from tests.validation.simulation import bench


def made(
    mfu: float | None,
    ofu: float,
    overhead: float | None = None,
    bound: Bound = "exact",
    precision: str = "bf16",
    kind: TrialKind = "aligned",
    side: int = 4096,
    peak: float = 1e15,
) -> Result:
    product = Product(kind, precision, side, side, side, 3.0)
    achieved = (mfu or 0.5) * peak
    tiling = Tiling(overhead, bound, 1.0, ())
    return Result(product, 2.0, achieved, 0.7e9, ofu, 0.001, mfu, tiling)


def only(results: list[Result], bounds: ErrorBounds | None = None) -> AccuracyRow:
    (row,) = accuracy.rows(results, bounds or ErrorBounds())
    return row


def test_errors_are_those_of_the_paper() -> None:
    row = only([made(0.50, 0.51), made(0.50, 0.53), made(0.50, 0.49), made(0.50, 0.56)])
    assert row.raw.products == 4
    assert row.raw.mean_absolute == pytest.approx((1 + 3 + 1 + 6) / 4)
    assert row.raw.mean == pytest.approx((1 + 3 - 1 + 6) / 4)
    assert (row.raw.within_2, row.raw.within_5) == (0.5, 0.75)
    assert (row.exact, row.lower) == (None, None)


def test_what_is_known_of_tiles_and_what_is_a_bound_are_two_estimators() -> None:
    row = only([made(0.5, 0.55, 0.1), made(0.5, 0.55, 0.05, "lower"), made(0.5, 0.6)])
    assert row.raw.products == 3
    assert row.exact is not None
    assert (row.exact.products, row.exact.within_2) == (1, 1.0)
    assert row.exact.mean_absolute == pytest.approx(0.0, abs=1e-9)
    assert row.lower is not None
    assert row.lower.products == 1
    assert row.lower.mean == pytest.approx(100 * (0.55 / 1.05 - 0.5))


@every(
    [
        ([made(0.5, 0.519, 0.03)], "inside"),
        ([made(0.5, 0.521, 0.042)], "outside"),
        ([made(0.5, 0.515, 0.0)], "outside"),
        ([made(0.5, 0.515, 0.0, "lower")], "inside"),
        ([made(0.5, 0.9, 0.5, kind="unaligned")], "not_judged"),
        ([made(None, 0.5)], "not_judged"),
        ([], "not_judged"),
        ([made(0.5, 0.51), made(0.5, 0.6, precision="fp8")], "outside"),
    ]
)
def test_a_card_is_judged_by_aligned_products_and_exact_tiles(
    results: list[Result], wanted: str
) -> None:
    assert accuracy.verdict(accuracy.rows(results, ErrorBounds())) == wanted


def test_bounds_can_be_others() -> None:
    assert only([made(0.5, 0.53)], ErrorBounds(raw=4.0)).raw_verdict == "inside"
    assert only([made(0.5, 0.53)], ErrorBounds(raw=2.9)).raw_verdict == "outside"


def test_the_curve_has_both_overheads_by_size() -> None:
    points = accuracy.curve(
        [
            made(0.5, 0.55, 0.09, kind="square", side=2048),
            made(0.4, 0.5, 0.2, kind="square", side=1024),
            made(0.4, 0.5),
        ]
    )
    assert [round(point.side) for point in points] == [1024, 2048]
    assert [point.tile_overhead for point in points] == [0.2, 0.09]
    assert [point.counted_overhead for point in points] == pytest.approx([0.25, 0.1])


def test_speed_ups_are_of_equal_squares() -> None:
    """A peak twice as high, at 0.6 of it instead of 0.5."""
    squares = [
        made(0.5, 0.5, precision="tf32", kind="square", peak=5e14),
        made(0.6, 0.66, precision="bf16", kind="square", peak=1e15),
        made(0.6, 0.66, precision="bf16", kind="square", side=999),
    ]
    (found,) = accuracy.speed_ups(squares)
    assert (found.precision, found.base, found.side) == ("bf16", "tf32", 4096)
    assert found.achieved == pytest.approx(2.4)
    assert found.by_ofu == pytest.approx(2.64)
    assert found.of_peaks == pytest.approx(2.0)


def test_speed_ups_stand_by_precision_as_they_ran_and_by_side() -> None:
    squares = [
        made(0.5, 0.5, precision=precision, kind="square", side=side)
        for side in (8192, 4096)
        for precision in ("tf32", "fp8", "bf16")
    ]
    order = [(each.precision, each.side) for each in accuracy.speed_ups(squares)]
    assert order == [("fp8", 4096), ("fp8", 8192), ("bf16", 4096), ("bf16", 8192)]


def test_without_a_base_there_are_no_speed_ups() -> None:
    assert accuracy.speed_ups([made(0.5, 0.5, precision="fp8", kind="square")]) == ()


def test_a_counter_that_stands_at_0_tells_of_no_speed_up() -> None:
    squares = [
        made(0.5, 0.0, precision="bf16", kind="square"),
        made(0.5, 0.5, precision="fp8", kind="square"),
    ]
    assert accuracy.speed_ups(squares) == ()


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
def test_reads_that_are_closer_together_gain_and_cycle_counters_leave_nothing(at_30: float) -> None:
    at_5, often, counters = (
        clock_noise.interval_95(way, ACTIVE, SEEDS[:6]) for way in (AT_5, OFTEN, COUNTERS)
    )
    assert at_5 < at_30 / 1.5
    assert often < at_5 / 3
    assert counters < 0.005


def test_a_run_shows_the_noise_of_its_own_clock(tmp_path: Path) -> None:
    made = bench(tmp_path, pace=SamplingPace(1.0, 0.1))
    (trial,) = made.trials([Product("noise", "bf16", 8192, 8192, 8192, 900.0)])
    found = accuracy.noise(trial, made.rating)
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
    found = {each.interval_seconds: each for each in accuracy.spreads(series, 1.0)}
    assert 1.0 not in found, "that is the series itself"
    assert found[30.0].reads == 200
    means = [100 * statistics.fmean(series[first::30]) for first in range(30)]
    assert found[30.0].std == pytest.approx(statistics.pstdev(means), rel=1e-6)
    assert found[30.0].interval_95 == pytest.approx(1.96 * found[30.0].std)


def test_too_few_reads_tell_nothing() -> None:
    assert accuracy.spreads([0.5] * 20, 1.0) == ()
    assert [each.interval_seconds for each in accuracy.spreads([0.5] * 30, 1.0)] == [5.0]
