"""From one reading to one window: the mean clock over the same seconds, and nothing impossible."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.cycles import CycleTrust
from ofu_exporter.ofu.window import Outcome, mean_clock, measure
from ofu_exporter.values.reading import ClockSample, Reading
from ofu_exporter.values.reasons import Reason, Rejection
from tests.helpers.values import H100_RATING, reading


def measured(taken: Reading) -> Outcome:
    return measure(taken, H100_RATING, CycleTrust())


def test_ofu_of_a_steady_window() -> None:
    window = measured(reading(tensor=0.5, hz=[1464e6] * 10)).window
    assert window is not None
    assert window.utilization == pytest.approx(0.4)
    assert window.stderr == 0.0
    assert window.clock_method == "polled"


def test_the_clock_is_weighted_with_the_time_it_stands_for() -> None:
    """Nine reads in a burst at the end do not outweigh the one that stands for the rest."""
    burst = [ClockSample(9 + i / 9, 1000.0) for i in range(1, 10)]
    clock = mean_clock([ClockSample(0.0, 2000.0), *burst], 0.0, 10.0)
    assert clock is not None
    assert clock.hz == pytest.approx(1455.6, abs=0.1)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(1e8, 2e9)), min_size=1, max_size=30))
def test_the_mean_clock_lies_between_its_reads(reads: list[tuple[float, float]]) -> None:
    clock = mean_clock([ClockSample(*read) for read in reads], 0.0, 10.0)
    assert clock is not None
    values = [hz for _, hz in reads]
    assert min(values) * (1 - 1e-9) <= clock.hz <= max(values) * (1 + 1e-9)
    assert 1 - 1e-9 <= clock.samples <= len(reads) + 1e-9


@given(st.lists(st.floats(1e8, 1.98e9), min_size=2, max_size=20))
def test_evenly_spread_reads_weigh_nearly_the_same(values: list[float]) -> None:
    step = 10 / len(values)
    reads = [ClockSample((i + 0.5) * step, hz) for i, hz in enumerate(values)]
    clock = mean_clock(reads, 0.0, 10.0)
    assert clock is not None
    assert clock.hz == pytest.approx(sum(values) / len(values))
    assert clock.samples == pytest.approx(len(values))


def test_no_read_gives_no_clock() -> None:
    assert mean_clock([], 0.0, 5.0) is None
    outcome = measured(reading(hz=[]))
    assert outcome.reason is Reason.NO_CLOCK
    assert outcome.window is not None
    assert (outcome.window.tensor_active, outcome.window.utilization) == (0.5, None)


def test_one_read_has_no_standard_error() -> None:
    window = measured(reading(hz=[1400e6])).window
    assert window is not None
    assert (window.clock_method, window.stderr) == ("point", None)


def test_noise_of_the_papers_h100_gives_its_standard_error() -> None:
    noisy = [1352e6 + 32e6 * (-1) ** i for i in range(10)]
    window = measured(reading(tensor=0.74, hz=noisy)).window
    assert window is not None
    assert window.stderr == pytest.approx(0.74 * 32e6 / (10**0.5 * 1830e6), rel=0.1)


def test_no_tensor_counter_is_a_reason_not_a_zero() -> None:
    outcome = measured(reading(tensor=None))
    assert outcome.reason is Reason.NO_TENSOR_COUNTER
    assert outcome.window is not None
    assert outcome.window.sm_clock_hz == pytest.approx(1400e6), "the clock was measured"
    assert (outcome.window.tensor_active, outcome.window.utilization) == (None, None)


@pytest.mark.parametrize("value", [-0.01, 1.01, 808334905.0, -math.inf, 140737488355328.0])
def test_impossible_activity_is_rejected_and_named(value: float) -> None:
    outcome = measured(reading(tensor=value))
    assert outcome.window is None
    assert outcome.reason is Reason.IMPOSSIBLE
    assert outcome.rejected[0] in (Rejection.TENSOR_OUT_OF_RANGE, Rejection.NOT_A_NUMBER)


def test_nan_is_rejected_as_such() -> None:
    assert measured(reading(tensor=math.nan)).rejected == (Rejection.NOT_A_NUMBER,)


def test_another_fields_value_in_the_clock_costs_that_read_only() -> None:
    """2619 MHz is this card's memory clock, seen in the field where the SM clock belongs."""
    outcome = measured(reading(tensor=0.5, hz=[1464e6] * 9 + [2619e6]))
    assert outcome.window is not None
    assert outcome.window.utilization == pytest.approx(0.4)
    assert outcome.rejected == (Rejection.CLOCK_OUT_OF_RANGE,)


@pytest.mark.parametrize("hz", [0.0, 1400.0, -1e6, math.nan, math.inf, 140737488355328e6])
def test_a_window_with_no_believable_clock_is_refused(hz: float) -> None:
    outcome = measured(reading(hz=[hz]))
    assert (outcome.window, outcome.reason) == (None, Reason.IMPOSSIBLE)


def test_a_bad_pipe_costs_itself_not_the_window() -> None:
    outcome = measured(reading(pipes={"hmma": 0.5, "imma": math.nan, "dmma": -3.0}))
    assert outcome.window is not None
    assert outcome.window.pipes == {"hmma": 0.5}
    assert set(outcome.rejected) == {Rejection.NOT_A_NUMBER, Rejection.TENSOR_OUT_OF_RANGE}


@pytest.mark.parametrize(
    ("end", "rejection"),
    [
        (0.0, Rejection.WINDOW_TOO_SHORT),
        (-5.0, Rejection.WINDOW_TOO_SHORT),
        (0.05, Rejection.WINDOW_TOO_SHORT),
        (61.0, Rejection.WINDOW_TOO_LONG),
        (math.nan, Rejection.NOT_A_NUMBER),
    ],
)
def test_a_window_must_be_as_long_as_the_hardware_allows(end: float, rejection: Rejection) -> None:
    assert measured(reading(end=end, hz=[1e9])).rejected == (rejection,)


@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5),
)
def test_whatever_a_counter_says_ofu_is_a_number_that_can_be_or_absent(
    tensor: float, hz: list[float]
) -> None:
    outcome = measured(reading(tensor=tensor, hz=hz))
    value = outcome.window.utilization if outcome.window else None
    if value is None:
        assert outcome.reason is not None
    else:
        assert 0 <= value <= 1.001 * 1.1 * 1980 / 1830
