"""OFU = tensor activity x SM clock / tensor clock, per clock domain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu import formula
from ofu_exporter.values.gpu import FP64, LOW_PRECISION

ratios = st.floats(0, 1)
clocks = st.floats(1e8, 3e9)


def test_the_papers_h100_example() -> None:
    """Activity 0.74 at 1352 MHz against the H100's 1830 MHz tensor clock."""
    assert formula.utilization(0.74, 1352e6, 1830e6) == pytest.approx(0.5467, abs=1e-4)


def test_ofu_above_activity_is_legal_and_not_clamped() -> None:
    assert formula.utilization(0.97, 1980e6, 1830e6) > 1


@given(ratios, clocks, clocks)
def test_ofu_is_tensor_cycles_over_the_cycles_at_the_tensor_clock(
    active: float, clock: float, rated: float
) -> None:
    seconds = 5.0
    tensor_cycles = active * clock * seconds
    assert formula.utilization(active, clock, rated) == pytest.approx(
        tensor_cycles / (seconds * rated)
    )


@given(ratios, st.floats(0, 1), clocks, clocks)
def test_domains_add_up_to_the_total_when_their_clocks_are_equal(
    active: float, fp64: float, clock: float, rated: float
) -> None:
    activity = formula.activity_by_domain(active, {"dmma": fp64})
    rated_by_domain = {LOW_PRECISION: rated, FP64: rated}
    together = formula.utilization_over_domains(activity, clock, rated_by_domain)
    assert together == pytest.approx(formula.utilization(active, clock, rated), abs=1e-12)


def test_fp64_work_is_measured_against_the_fp64_clock() -> None:
    rated = {LOW_PRECISION: 1830e6, FP64: 1980e6}
    activity = formula.activity_by_domain(0.6, {"hmma": 0.2, "imma": 0.0, "dmma": 0.4})
    expected = 0.2 * 1500 / 1830 + 0.4 * 1500 / 1980
    assert formula.utilization_over_domains(activity, 1500e6, rated) == pytest.approx(expected)


def test_without_pipe_counters_everything_is_low_precision() -> None:
    assert formula.activity_by_domain(0.5, {}) == {LOW_PRECISION: 0.5, FP64: 0.0}


def test_dcgms_dfma_stands_for_fp64_where_there_is_no_dmma() -> None:
    assert formula.activity_by_domain(0.5, {"dfma": 0.5})[FP64] == 0.5


@given(ratios, st.dictionaries(st.sampled_from(["hmma", "imma", "dmma", "dfma"]), ratios))
def test_a_cycle_is_never_counted_twice_nor_lost(active: float, pipes: dict[str, float]) -> None:
    activity = formula.activity_by_domain(active, pipes)
    assert sum(activity.values()) == pytest.approx(active)
    assert all(value >= 0 for value in activity.values())


def test_a_model_without_an_fp64_clock_uses_its_only_one() -> None:
    activity = {LOW_PRECISION: 0.2, FP64: 0.1}
    assert formula.utilization_over_domains(activity, 1e9, {LOW_PRECISION: 2e9}) == pytest.approx(
        0.15
    )
