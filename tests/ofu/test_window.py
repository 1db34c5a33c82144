"""From one reading to one window: the mean clock over the same seconds, and nothing impossible."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.cycles import CycleTrust
from ofu_exporter.ofu.window import Outcome, clock_limit_hz, measure
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import MAX_RATIO, ActivitySample, ClockSample, CycleTotals, Reading
from ofu_exporter.values.reasons import Reason, Rejection
from tests.helpers.values import H100_RATING, gpu, reading


def measured(taken: Reading) -> Outcome:
    return measure(taken, H100_RATING, CycleTrust())


def test_ofu_of_a_steady_window() -> None:
    window = measured(reading(tensor=0.5, hz=[1464e6] * 10)).window
    assert window is not None
    assert window.utilization == pytest.approx(0.4)
    assert 0.0 < (window.stderr or 0.0) < 0.001
    assert window.clock_method == "polled"


def test_no_read_gives_no_clock() -> None:
    outcome = measured(reading(hz=[]))
    assert outcome.reason is Reason.NO_CLOCK
    assert outcome.window is not None
    assert (outcome.window.tensor_active, outcome.window.utilization) == (0.5, None)


def test_one_read_has_no_standard_error() -> None:
    window = measured(reading(hz=[1400e6])).window
    assert window is not None
    assert (window.clock_method, window.stderr) == ("point", None)


def test_noise_of_the_papers_h100_gives_its_standard_error() -> None:
    """The paper's section IV-C: TPA * s / (sqrt(n) * f_T), and a little more because s is known from ten reads."""
    noisy = [1352e6 + 32e6 * off for off in random.Random(7).choices((-1, 1), k=1000)]
    found = [
        measured(reading(tensor=0.74, hz=noisy[at : at + 10])).window for at in range(0, 1000, 10)
    ]
    stated = statistics.fmean((window and window.stderr) or 0.0 for window in found)
    paper = 0.74 * 32e6 / (10**0.5 * 1830e6)
    assert paper < stated < 1.6 * paper


def test_no_tensor_counter_is_a_reason_not_a_zero() -> None:
    outcome = measured(reading(tensor=None))
    assert outcome.reason is Reason.NO_TENSOR_COUNTER
    assert outcome.window is not None
    assert outcome.window.sm_clock_hz == pytest.approx(1400e6), "the clock was measured"
    assert (outcome.window.tensor_active, outcome.window.utilization) == (None, None)


def test_what_was_measured_of_a_window_without_an_ofu_is_kept() -> None:
    taken = reading(5, 10, None, [1400e6, 9e9], pipes={"hmma": 0.5, "imma": 7.0}, cycles=(7e9, 3e9))
    outcome = measured(taken)
    assert outcome.window is not None
    assert (outcome.window.start, outcome.window.end) == (5.0, 10.0)
    assert outcome.window.pipes == {"hmma": 0.5}
    assert outcome.rejected == (Rejection.CLOCK_OUT_OF_RANGE,)
    assert outcome.trust == CycleTrust(taken.cycles), "the counters go on from here"


def test_a_window_that_is_refused_says_of_what_and_the_counters_go_on_from_it() -> None:
    taken = reading(hz=[math.nan, 9e9], cycles=(7e9, 3e9))
    outcome = measured(taken)
    assert outcome.detail == "not_a_number, clock_out_of_range"
    assert outcome.trust == CycleTrust(taken.cycles)


def test_the_highest_values_that_can_be_are_believed() -> None:
    highest = clock_limit_hz(reading(), H100_RATING)
    assert measured(reading(tensor=MAX_RATIO, hz=[highest])).rejected == ()
    assert measured(reading(end=60.0)).rejected == ()
    assert measured(reading(end=0.9 * 0.1)).rejected == ()


def test_trusted_counters_say_the_activity_too() -> None:
    """The source rounds it to 0.5; by the cycles it was 0.505."""
    outcome = Outcome(None, CycleTrust())
    for number in range(6):
        elapsed = (number + 1) * 5 * 1400e6
        taken = reading(5.0 * number, 5.0 * number + 5, 0.5, cycles=(elapsed, 0.505 * elapsed))
        outcome = measure(taken, H100_RATING, outcome.trust)
    assert outcome.window is not None
    assert outcome.window.tensor_active == pytest.approx(0.505)
    assert outcome.window.utilization == pytest.approx(0.505 * 1400 / 1830)


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


@pytest.mark.parametrize(("card", "model"), [(2e9, 1e9), (1e9, 2e9), (2e9, None), (None, 2e9)])
def test_a_clock_that_either_the_card_or_its_model_may_reach_is_believed(
    card: float | None, model: float | None
) -> None:
    """A card may be sold with a higher maximum than its model's, or run below it by its owner's choice."""
    device = replace(gpu(), max_sm_clock_hz=card)
    rating = replace(H100_RATING, max_sm_clock_hz=model)

    def rejected(hz: float) -> tuple[Rejection, ...]:
        return measure(reading(hz=[hz], device=device), rating, CycleTrust()).rejected

    assert rejected(2.19e9) == ()
    assert rejected(2.21e9) == (Rejection.CLOCK_OUT_OF_RANGE,)


def test_where_no_maximum_is_known_any_clock_that_an_sm_can_have_is_believed() -> None:
    device = replace(gpu(), max_sm_clock_hz=None)
    rating = replace(H100_RATING, max_sm_clock_hz=None)
    assert measure(reading(hz=[3.9e9], device=device), rating, CycleTrust()).rejected == ()
    assert measure(reading(hz=[4.1e9], device=device), rating, CycleTrust()).window is None


def summed_over(sms: int, device: Gpu) -> Outcome:
    """The last of six windows whose cycle counters are sums over a number of SMs, of a card rated at 132."""
    rating = replace(H100_RATING, sm_count=132)
    outcome = Outcome(None, CycleTrust())
    for number in range(6):
        elapsed = (number + 1) * 5 * 1400e6 * sms
        taken = reading(5.0 * number, 5.0 * number + 5, 0.5, device=device)
        taken = replace(taken, cycles=CycleTotals(elapsed, elapsed / 2))
        outcome = measure(taken, rating, outcome.trust)
    return outcome


def test_a_gpu_that_does_not_say_how_many_sms_it_has_has_those_of_its_model() -> None:
    outcome = summed_over(132, replace(gpu(), sm_count=None))
    assert outcome.window is not None
    assert outcome.window.clock_method == "cycles"


def test_a_window_by_cycle_counters_has_no_error_of_cut_samples() -> None:
    """The counters are read at its very ends; by polls, samples that the ends cut make it uncertain."""

    def error(cut: float) -> float | None:
        outcome = Outcome(None, CycleTrust())
        for number in range(6):
            elapsed = (number + 1) * 5 * 1400e6 * 132
            taken = reading(5.0 * number, 5.0 * number + 5, 0.5)
            cycles = CycleTotals(elapsed, elapsed / 2)
            taken = replace(taken, cycles=cycles, cut_seconds=cut)
            outcome = measure(taken, replace(H100_RATING, sm_count=132), outcome.trust)
        assert outcome.window is not None
        assert outcome.window.clock_method == "cycles"
        return outcome.window.stderr

    assert error(1.0) == error(0.0)
    polled = [measured(replace(reading(), cut_seconds=cut)).window for cut in (0.0, 1.0)]
    before, after = (window.stderr for window in polled if window)
    assert before is not None
    assert after is not None
    assert after > before + 0.01


def test_counters_that_are_known_worse_than_the_polled_clock_are_not_used() -> None:
    """In three windows, whose clock was hardly known, they differed by 3.5 %."""
    polled = 3 * 5 * 1400e6
    trust = CycleTrust(CycleTotals(0, 0), 1.0, 3, 1.035 * polled, polled, (0.002 * polled) ** 2)
    taken = reading(0, 5, 0.5, [1400e6] * 10, cycles=(5 * 1400e6, 2.5 * 1400e6))
    outcome = measure(taken, H100_RATING, trust)
    assert outcome.trust.agreed == 4
    assert outcome.window is not None
    assert outcome.window.clock_method == "polled"


def test_edges_that_are_not_known_better_than_a_second_widen_the_error_as_a_cut_does() -> None:
    taken = (reading(), replace(reading(), edge_seconds=1.0), replace(reading(), cut_seconds=1.0))
    errors = [window.stderr for each in taken if (window := measured(each).window)]
    sharp, slow, cut = (error for error in errors if error is not None)
    assert slow == cut
    assert slow > sharp + 0.01


def test_an_instance_that_does_not_say_how_many_sms_it_has_never_has_those_of_the_whole_gpu() -> (
    None
):
    part = replace(gpu(instance="1"), sm_count=None)
    outcome = summed_over(132, part)
    assert outcome.rejected == (Rejection.CYCLES_IMPLAUSIBLE,)
    assert outcome.window is not None
    assert outcome.window.clock_method == "polled"
    own = summed_over(16, replace(part, sm_count=16))
    assert own.window is not None
    assert own.window.clock_method == "cycles"


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


def test_a_window_over_a_long_stop_of_the_agent_accuses_no_counter() -> None:
    outcome = measured(reading(end=75.0))
    assert (outcome.window, outcome.reason) == (None, Reason.STALE)
    assert outcome.detail == "a window of 75 s: window_too_long"
    assert "restart" not in Reason.STALE.advice


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


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf])
def test_a_clock_read_without_a_time_costs_itself_only(at: float) -> None:
    good = reading(tensor=0.5)
    outcome = measured(replace(good, clocks=(*good.clocks, ClockSample(at, 1980e6))))
    assert outcome.rejected == (Rejection.NOT_A_NUMBER,)
    assert outcome.window is not None
    assert outcome.window.utilization == pytest.approx(0.5 * 1400 / 1830)


# --- activity in parts -----------------------------------------------------------------------------


def in_parts(*parts: tuple[float, float], seconds: float = 1.0) -> Reading:
    """Parts of one second, each with its activity and the clock that all reads in it show."""
    made = tuple(
        ActivitySample(seconds * n, seconds * (n + 1), tensor, {"dmma": tensor / 2})
        for n, (tensor, _) in enumerate(parts)
    )
    clocks = [
        ClockSample(seconds * (n + step / 10 + 0.05), hz)
        for n, (_, hz) in enumerate(parts)
        for step in range(10)
    ]
    mean = statistics.fmean(tensor for tensor, _ in parts)
    whole = reading(0.0, seconds * len(parts), mean, (), pipes={"dmma": mean / 2})
    return replace(whole, samples=made, clocks=tuple(clocks))


def test_each_part_is_multiplied_with_the_clock_of_its_own_time() -> None:
    """0.9 at 1400 MHz and 0.05 at 1980 MHz: the product of the means says 43.9 %."""
    taken = replace(in_parts((0.9, 1400e6), (0.05, 1980e6)), pipes={})
    window = measured(taken).window
    assert window is not None
    assert window.utilization == pytest.approx((0.9 * 1400 + 0.05 * 1980) / 2 / 1830)


def test_what_is_shown_of_a_window_multiplies_to_its_ofu() -> None:
    taken = replace(in_parts((0.8, 1905e6), (0.0, 345e6)), pipes={})
    window = measured(taken).window
    assert window is not None
    assert window.tensor_active is not None
    assert window.sm_clock_hz is not None
    assert window.sm_clock_hz == pytest.approx(1125e6)
    assert window.tensor_active == pytest.approx(0.8 * 1905 / (1905 + 345))
    assert window.utilization == pytest.approx(window.tensor_active * window.sm_clock_hz / 1830e6)


def test_pipes_are_shares_of_the_same_cycles() -> None:
    window = measured(in_parts((0.8, 1905e6), (0.1, 345e6))).window
    assert window is not None
    assert window.tensor_active is not None
    assert window.pipes["dmma"] == pytest.approx(window.tensor_active / 2)
    low, fp64 = (0.4 * 1905 + 0.05 * 345) / 2 / 1830, (0.4 * 1905 + 0.05 * 345) / 2 / 1980
    assert window.utilization == pytest.approx(low + fp64)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(2e8, 1.98e9)), min_size=1, max_size=8))
def test_a_window_is_the_mean_of_what_its_parts_would_be(parts: list[tuple[float, float]]) -> None:
    window = measured(replace(in_parts(*parts), pipes={})).window
    assert window is not None
    expected = statistics.fmean(tensor * hz / 1830e6 for tensor, hz in parts)
    assert window.utilization == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("value", [1.01, -0.1, math.nan])
def test_an_impossible_part_hides_in_no_mean(value: float) -> None:
    whole = in_parts((0.5, 1400e6), (0.5, 1400e6))
    bad = replace(whole, samples=(whole.samples[0], whole.samples[1]._replace(tensor_active=value)))
    assert measured(bad).reason is Reason.IMPOSSIBLE


def test_parts_that_leave_some_of_the_window_out_are_not_used() -> None:
    whole = in_parts((0.9, 1400e6), (0.1, 1400e6))
    window = measured(replace(whole, samples=whole.samples[:1], pipes={})).window
    assert window is not None
    assert window.tensor_active == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("missing", "active"), [(0.0009, 0.8 * 1905 / (1905 + 345)), (0.0011, 0.8 / 2)]
)
def test_parts_may_leave_out_the_millisecond_to_which_their_times_are_rounded(
    missing: float, active: float
) -> None:
    whole = replace(in_parts((0.8, 1905e6), (0.0, 345e6)), pipes={})
    last = whole.samples[1]._replace(end=2.0 - missing)
    window = measured(replace(whole, samples=(whole.samples[0], last))).window
    assert window is not None
    assert window.tensor_active == pytest.approx(active, rel=1e-3)


def test_a_pipe_that_a_part_lacks_is_left_out() -> None:
    whole = in_parts((0.5, 1400e6), (0.5, 1400e6))
    window = measured(
        replace(whole, samples=(whole.samples[0], whole.samples[1]._replace(pipes={})))
    ).window
    assert window is not None
    assert window.pipes == {}
    assert window.utilization == pytest.approx(0.5 * 1400 / 1830)


def test_a_window_tells_how_its_ofu_lay_by_the_clock_of_each_time() -> None:
    """4 s at 0.6 and 1400 MHz, then 1 s at 0 and 1980: the whole is what the hardware counted, 46.9 % of all cycles."""
    clocks = [ClockSample(0.25 + 0.5 * n, 1400e6 if n < 8 else 1980e6) for n in range(10)]
    cycles = 4 * 1400e6, 1980e6
    mean = 0.6 * cycles[0] / sum(cycles)
    shape = tuple(ActivitySample(float(n), n + 1.0, 0.6 if n < 4 else 0.0, {}) for n in range(5))
    whole = replace(reading(tensor=mean, hz=()), clocks=tuple(clocks), shape=shape)
    window = measured(whole).window
    assert window is not None
    assert [one.end for one in window.inner] == [1.0, 2.0, 3.0, 4.0, 5.0]
    ofus = [one.utilization for one in window.inner]
    assert ofus == pytest.approx([0.6 * 1400 / 1830] * 4 + [0.0], rel=0.02)
    assert math.fsum(ofus) / 5 == pytest.approx(window.utilization)


@pytest.mark.parametrize(
    "shape",
    [
        (ActivitySample(0.0, 5.0, 0.5, {}),),
        (ActivitySample(0.0, 2.0, 0.5, {}), ActivitySample(2.0, 4.0, 0.5, {})),
        (ActivitySample(0.0, 2.0, 1.7, {}), ActivitySample(2.0, 5.0, 0.5, {})),
        (ActivitySample(0.0, 2.0, math.nan, {}), ActivitySample(2.0, 5.0, 0.5, {})),
    ],
)
def test_samples_that_do_not_tell_how_a_window_lay_leave_it_whole(
    shape: tuple[ActivitySample, ...],
) -> None:
    window = measured(replace(reading(), shape=shape)).window
    assert window is not None
    assert window.inner == ()
    assert window.utilization == pytest.approx(0.5 * 1400 / 1830)
