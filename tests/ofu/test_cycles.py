"""Cycle counters are believed only after they have agreed with what is measured otherwise."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.cycles import AGREEING_WINDOWS, CycleTrust, CycleVerdict, Expected, judge
from ofu_exporter.values.reading import CycleTotals

EXPECTED = Expected(
    seconds=5.0,
    tensor_active=(0.6, 0.6),
    sm_clock_hz=1400e6,
    clock_error_hz=5e6,
    clock_limit_hz=2178e6,
    sm_count=132,
)


def after(
    windows: int,
    scale: float = 1.0,
    hz: float = 1400e6,
    active: float = 0.6,
    expected: Expected = EXPECTED,
) -> CycleVerdict:
    """The verdict on the last of some steady windows."""
    trust = CycleTrust()
    verdict = CycleVerdict(trust)
    for number in range(windows + 1):
        elapsed = 7e15 + number * hz * 5.0 * scale
        verdict = judge(verdict.trust, CycleTotals(elapsed, elapsed * active), expected)
    return verdict


@pytest.mark.parametrize("scale", [1.0, 132.0])
def test_counters_per_sm_and_summed_over_sms_are_both_understood(scale: float) -> None:
    verdict = after(AGREEING_WINDOWS + 1, scale, hz=1404e6)
    assert verdict.sm_clock_hz == pytest.approx(1404e6)
    assert verdict.tensor_active == pytest.approx(0.6)


@pytest.mark.parametrize("active", [0.0, 1.0])
def test_an_idle_gpu_and_one_that_is_never_idle_are_believed(active: float) -> None:
    told = after(
        AGREEING_WINDOWS + 1,
        active=active,
        expected=EXPECTED._replace(tensor_active=(active, active)),
    )
    assert told.tensor_active == active


def test_what_the_polls_have_missed_is_believed_of_trusted_counters() -> None:
    """The clock was 7 % lower than the polled one for this window: the counters are there to tell."""
    trusted = after(AGREEING_WINDOWS + 1).trust
    assert trusted.previous is not None
    slower = CycleTotals(
        trusted.previous.elapsed + 5 * 1300e6, trusted.previous.tensor + 0.6 * 5 * 1300e6
    )
    assert judge(trusted, slower, EXPECTED).sm_clock_hz == pytest.approx(1300e6)


def test_more_tensor_cycles_than_cycles_are_never_believed() -> None:
    busy = EXPECTED._replace(tensor_active=(1.0, 1.0))
    trusted = after(AGREEING_WINDOWS + 1, active=1.0, expected=busy).trust
    assert trusted.previous is not None
    elapsed = 5 * 1400e6
    more = CycleTotals(trusted.previous.elapsed + elapsed, trusted.previous.tensor + 1.01 * elapsed)
    assert judge(trusted, more, busy).implausible


def test_counters_that_stand_still_are_not_believed() -> None:
    trusted = after(AGREEING_WINDOWS + 1).trust
    assert judge(trusted, trusted.previous, EXPECTED).implausible


def test_where_the_number_of_sms_is_not_known_no_sum_is_made_out() -> None:
    unknown = EXPECTED._replace(sm_count=None)
    assert after(20, scale=2.0, expected=unknown).implausible
    assert after(20, scale=1.0, expected=unknown).sm_clock_hz is not None


def test_nothing_is_used_before_enough_windows_agree() -> None:
    assert after(AGREEING_WINDOWS).sm_clock_hz is None
    assert not after(AGREEING_WINDOWS).implausible


@pytest.mark.parametrize(("hz", "active"), [(900e6, 0.6), (1400e6, 0.3), (1400e6 * 7, 0.6)])
def test_counters_that_disagree_are_never_used(hz: float, active: float) -> None:
    verdict = after(20, hz=hz, active=active)
    assert verdict.sm_clock_hz is None
    assert verdict.implausible


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ({"hz": 1461.9e6}, {"hz": 1462.1e6}),
        ({"hz": 1177.0e6}, {"hz": 1176.8e6}),
        ({"active": 0.5801}, {"active": 0.5799}),
        ({"active": 0.6199}, {"active": 0.6201}),
    ],
)
def test_three_percent_and_four_errors_of_the_clock_and_two_points_of_activity_agree(
    near: dict[str, Any], far: dict[str, Any]
) -> None:
    """42 and 20 MHz here; the polled clock may be 13 % too high besides."""
    assert not after(1, **near).implausible
    assert after(1, **far).implausible


def test_a_reset_counter_loses_trust_and_earns_it_again() -> None:
    trusted = after(AGREEING_WINDOWS + 1).trust
    verdict = judge(trusted, CycleTotals(0.0, 0.0), EXPECTED)
    assert verdict.implausible
    assert verdict.sm_clock_hz is None
    assert not verdict.trust.earned


def test_a_window_that_ends_without_totals_takes_no_trust_away() -> None:
    """As seen of a host engine: for half a minute no two totals were of one instant."""
    trusted = after(9)
    missing = judge(trusted.trust, None, EXPECTED)
    assert (missing.tensor_active, missing.sm_clock_hz, missing.implausible) == (None, None, False)
    first = judge(missing.trust, CycleTotals(9e15, 6e15), EXPECTED)
    assert first.sm_clock_hz is None, "nobody knows the totals at its start"
    again = judge(first.trust, CycleTotals(9e15 + 5 * 1400e6, 6e15 + 3 * 1400e6), EXPECTED)
    assert again.sm_clock_hz == pytest.approx(1400e6)
    assert again.error_ratio == trusted.error_ratio


def test_counters_that_change_what_they_are_summed_over_have_to_agree_anew() -> None:
    """From one SM to all of them, as after a change of driver: until it has held for long, neither is believed."""
    trust = after(AGREEING_WINDOWS - 1).trust
    assert trust.previous is not None
    elapsed = trust.previous.elapsed
    used = []
    for _ in range(AGREEING_WINDOWS + 1):
        elapsed += 132 * 1400e6 * 5.0
        verdict = judge(trust, CycleTotals(elapsed, 0.6 * elapsed), EXPECTED)
        trust = verdict.trust
        used.append(verdict.sm_clock_hz)
    assert used == [None] * AGREEING_WINDOWS + [pytest.approx(1400e6)]


def test_an_impossible_clock_is_refused_even_from_trusted_counters() -> None:
    trusted = after(AGREEING_WINDOWS + 1).trust
    assert trusted.previous is not None
    leap = CycleTotals(trusted.previous.elapsed + 5 * 2500e6, trusted.previous.tensor + 3 * 2500e6)
    assert judge(trusted, leap, EXPECTED).implausible


@given(st.floats(allow_nan=True), st.floats(allow_nan=True))
def test_whatever_the_counters_say_what_is_used_can_be(elapsed: float, tensor: float) -> None:
    trusted = after(AGREEING_WINDOWS + 1).trust
    verdict = judge(trusted, CycleTotals(elapsed, tensor), EXPECTED)
    if verdict.sm_clock_hz is not None and verdict.tensor_active is not None:
        assert 0 < verdict.sm_clock_hz <= EXPECTED.clock_limit_hz
        assert 0 <= verdict.tensor_active <= 1


def under_noise(windows: int, error_hz: float, counted: float = 1.0) -> list[CycleVerdict]:
    """The verdicts where the polled clock is off by chance; `counted` is how much of the truth is counted."""
    chance = random.Random(11)
    verdicts, trust, elapsed = [], CycleTrust(), 7e15
    for _ in range(windows + 1):
        polled = EXPECTED._replace(
            sm_clock_hz=1400e6 + chance.gauss(0, error_hz), clock_error_hz=error_hz
        )
        verdicts.append(judge(trust, CycleTotals(elapsed, 0.6 * elapsed), polled))
        trust = verdicts[-1].trust
        elapsed += counted * 1400e6 * 5.0
    return verdicts


def test_trust_is_earned_under_loads_that_the_polls_hardly_know() -> None:
    """One window's clock is known to 8 %: no window shows much, and a hundred of them enough."""
    verdicts = under_noise(100, error_hz=112e6)
    assert not any(verdict.implausible for verdict in verdicts)
    assert not verdicts[10].trust.earned
    assert verdicts[-1].sm_clock_hz == pytest.approx(1400e6)


def test_counters_are_used_before_they_are_sure_and_say_how_unsure_they_are() -> None:
    """Bursts between 345 and 1755 MHz: one window's clock is known to 25 %, n of them to 25 / sqrt(n) %."""
    used = [v for v in under_noise(80, error_hz=350e6) if v.sm_clock_hz is not None]
    assert len(used) == 80 - AGREEING_WINDOWS
    assert used[0].error_ratio < 0.25
    assert all(0.25 / (n + 3) ** 0.5 <= 1.01 * v.error_ratio for n, v in enumerate(used))
    assert used[-1].error_ratio < 0.06


def test_the_activity_of_the_whole_may_lie_anywhere_between_that_of_its_parts() -> None:
    """0.9 at one clock and 0 at another, unknown one: no mean of the parts refuses what the counters say."""
    harsh = EXPECTED._replace(tensor_active=(0.0, 0.9))
    assert after(AGREEING_WINDOWS + 1, active=0.2, expected=harsh).tensor_active == pytest.approx(
        0.2
    )
    assert after(AGREEING_WINDOWS + 1, active=0.95, expected=harsh).implausible


@pytest.mark.parametrize("counted", [0.5, 0.8, 1.12, 2.0])
def test_noise_hides_no_counter_that_is_off(counted: float) -> None:
    verdicts = under_noise(200, error_hz=112e6, counted=counted)
    assert not any(verdict.trust.earned for verdict in verdicts)
    assert any(verdict.implausible for verdict in verdicts)
    # Until that shows, what is used says that it may be off by as much.
    used = [v for v in verdicts if v.sm_clock_hz is not None]
    held = [abs(counted - 1) <= 2 * v.error_ratio for v in used]
    assert sum(held) >= 0.93 * len(held)


def test_a_clock_without_a_known_error_shows_nothing() -> None:
    unknown = EXPECTED._replace(clock_error_hz=None)
    trust = CycleTrust()
    for number in range(20):
        elapsed = 7e15 + number * 7e9
        trust = judge(trust, CycleTotals(elapsed, 0.6 * elapsed), unknown).trust
    assert not trust.earned
