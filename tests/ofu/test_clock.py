"""The mean of the SM clock from point reads, and an error that holds the truth."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu import clock
from ofu_exporter.ofu.clock import BLIND_SECONDS, ClockCurve, ClockMemory, Weighed, clock_curve
from ofu_exporter.values.reading import ClockSample

HIGHEST_HZ = 1980e6
WHOLE = Weighed(0.0, 10.0, 0.1)
"""Over ten seconds, the weighed sum is the mean."""


def curve(
    reads: Sequence[tuple[float, float]], remembered: ClockMemory | None = None
) -> ClockCurve:
    made = clock_curve([ClockSample(*read) for read in reads], (0.0, 10.0), HIGHEST_HZ, remembered)
    assert made is not None
    return made


def mean(made: ClockCurve, start: float = 0.0, end: float = 10.0) -> float:
    (cycles,) = made.cycles([(start, end)])
    return cycles / (end - start)


def error(reads: Sequence[tuple[float, float]], remembered: ClockMemory | None = None) -> float:
    found = curve(reads, remembered).error([WHOLE])
    assert found is not None
    return found


def at_each(step: float, hz: Callable[[float], float]) -> list[tuple[float, float]]:
    count = round(10 / step)
    return [((n + 0.5) * step, hz((n + 0.5) * step)) for n in range(count)]


def test_no_read_gives_no_clock() -> None:
    assert clock_curve([], (0.0, 10.0), HIGHEST_HZ) is None


def test_a_read_counts_for_the_time_it_stands_for() -> None:
    """Nine reads in a burst at the end do not outweigh the one that stands for the rest."""
    burst = [(9 + i / 9, 1000.0) for i in range(1, 10)]
    assert mean(curve([(0.0, 2000.0), *burst])) == pytest.approx(1455.6, abs=0.1)


def test_reads_beside_the_window_stand_for_its_edges_only() -> None:
    made = curve([(-0.1, 1000.0), (0.1, 2000.0), (9.9, 2000.0), (10.1, 3000.0)])
    assert mean(made) == pytest.approx(2000.0)
    assert mean(made, 0.0, 1.0) == pytest.approx(2000.0)


def test_how_far_from_a_window_it_was_read_too_makes_no_error() -> None:
    reads = at_each(0.5, lambda at: 1.4e9 + 1e7 * (at % 1 < 0.5))
    near, far = ([*reads, (10.2, 1.4e9), (at, 1.4e9), (10 - at, 1.4e9)] for at in (10.4, 30.0))
    assert error(far) == pytest.approx(error(near))


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(1e8, 2e9)), min_size=1, max_size=30))
def test_the_mean_lies_between_the_reads(reads: list[tuple[float, float]]) -> None:
    found = mean(curve(reads))
    values = [hz for _, hz in reads]
    assert min(values) * (1 - 1e-9) <= found <= max(values) * (1 + 1e-9)


@given(
    st.lists(st.tuples(st.floats(-1, 11), st.floats(1e8, 2e9)), min_size=1, max_size=30),
    st.lists(st.floats(0, 10), max_size=8),
)
def test_parts_add_up_to_the_whole(reads: list[tuple[float, float]], cuts: list[float]) -> None:
    made = curve(reads)
    bounds = [0.0, *sorted(cuts), 10.0]
    parts = made.cycles(itertools.pairwise(bounds))
    assert math.fsum(parts) / 10 == pytest.approx(mean(made))


# --- the error -------------------------------------------------------------------------------------


def test_one_read_has_no_error_that_is_known() -> None:
    assert curve([(5.0, 1.4e9)]).error([WHOLE]) is None


@pytest.mark.parametrize("step", [5.0, 2.0, 0.5, 0.1])
def test_no_number_of_equal_reads_makes_the_clock_exact(step: float) -> None:
    assert error(at_each(step, lambda _: 1.4e9)) > 0


def test_few_reads_know_less_than_many() -> None:
    few, more, many = (error(at_each(step, lambda _: 1.4e9)) for step in (5.0, 2.0, 0.5))
    assert few > 3 * more > 3 * many


Clock = Callable[[float], float]


def noise(chance: random.Random) -> Clock:
    return lambda _: chance.gauss(1352e6, 32e6)


def step(chance: random.Random) -> Clock:
    edge = chance.uniform(0, 10)
    return lambda t: 1.4e9 if t < edge else 1.98e9


def square_of_the_reads_period(chance: random.Random) -> Clock:
    off = chance.random()
    return lambda t: 1.4e9 if (t + off) % 0.5 < 0.25 else 1.9e9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [noise, step, square_of_the_reads_period])
def test_the_truth_lies_within_two_errors(kind: Callable[[random.Random], Clock]) -> None:
    """In 95 of 100 windows, of 400; read as the agent does, at a chance place of every half second."""
    chance = random.Random(3)
    inside = []
    for _ in range(400):
        hz = kind(chance)
        truth = statistics.fmean(hz((n + 0.5) / 200) for n in range(2000))
        taken = [(at, hz(at)) for at in ((n + chance.random()) / 2 for n in range(20))]
        inside.append(abs(mean(curve(taken)) - truth) <= 2 * error(taken))
    assert statistics.fmean(inside) >= 0.93


def test_what_the_windows_before_have_shown_is_not_forgotten_at_once() -> None:
    """Bursts of 0.3 s in every 2 s are in no read of some windows."""
    steady = at_each(0.5, lambda _: 1.98e9)
    wild = curve(at_each(0.5, lambda t: 1.35e9 if t % 2 < 0.5 else 1.98e9))
    assert error(steady, wild.memory) > 5 * error(steady)
    remembered = wild.memory
    for _ in range(60):
        remembered = curve(steady, remembered).memory
    usual = curve(steady).memory
    assert error(steady, remembered) == pytest.approx(error(steady, usual), rel=0.01)


def test_a_new_window_has_a_fifth_of_what_is_remembered() -> None:
    before, new = ClockMemory(100.0, 10.0, 4.0, 0.5), ClockMemory(0.0, 20.0, 0.0, 1.0)
    spread = 0.8 * (4 + (12 - 10) ** 2) + 0.2 * (0 + (20 - 12) ** 2)
    assert before.with_window(new) == pytest.approx((80.0, 12.0, spread, 0.6))
    assert before.with_window(new._replace(gap=0.0)).gap == 0.5


def test_reads_of_the_windows_before_make_a_spread_better_known() -> None:
    """Two reads alone show a spread badly; with those that are remembered the same spread is nearly the error."""
    two = [(2.5, 1.4e9), (7.5, 1.5e9)]
    alone = curve(two)
    assert alone.memory.spread == pytest.approx(0.05e9**2)
    steady = ClockMemory(alone.variances[0], 1.45e9, alone.memory.spread, alone.memory.gap)
    assert curve(two, steady).remembered > alone.remembered
    assert error(two, steady) < 0.75 * error(two)


def test_after_a_stop_the_clock_may_have_been_anything() -> None:
    """Eight seconds without a read, between two that are alike: nobody knows what was between."""
    reads = [(t, 345e6) for t in (0.0, 0.5, 1.0, 9.0, 9.5, 10.0)]
    blind = 8.0 - 2 * BLIND_SECONDS
    highest = blind * (HIGHEST_HZ - 345e6) / 10
    assert highest / 2 < error(reads) < highest


def within_two_errors(low: float, high: float, windows: int, held_up: int = 0) -> float:
    """The share of windows whose true mean lies within two stated errors.

    The clock has two values, each for so many seconds in the mean. With `held_up`, those windows are looked at of
    which one in so many is not read for 3.5 s.
    """
    chance = random.Random(5)
    lasts = {1.4e9: low, 1.98e9: high}
    hz, left, memory, inside = 1.4e9, 0.0, None, []
    for number in range(windows):
        levels: list[float] = []
        for _ in range(1000):
            left -= 0.01
            if left <= 0:
                hz = 1.4e9 + 1.98e9 - hz
                left = chance.expovariate(1 / lasts[hz])
            levels.append(hz)
        reads = [(n + chance.random()) / 2 for n in range(20)]
        is_held_up = held_up and memory is not None and number % held_up == 0
        taken = [(at, levels[int(100 * at)]) for at in reads if not (is_held_up and 3 < at < 6.5)]
        made = curve(taken, memory)
        memory = made.memory
        if is_held_up or not held_up:
            stated = made.error([WHOLE])
            assert stated is not None
            inside.append(abs(mean(made) - statistics.fmean(levels)) <= 2 * stated)
    return statistics.fmean(inside)


def test_the_truth_lies_within_two_errors_where_the_clock_was_not_read_for_seconds() -> None:
    assert within_two_errors(2.0, 2.0, windows=1500, held_up=5) >= 0.93


@pytest.mark.parametrize(
    ("name", "value", "least", "most"),
    [
        ("FORGETTING", clock.FORGETTING, 0.97, 1.0),
        ("FORGETTING", 1.0, 0.92, 0.96),
        ("REMEMBERED_READS", 0, 0.8, 0.9),
    ],
)
def test_windows_before_tell_of_a_clock_that_drops_every_few_seconds(
    name: str, value: float, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, name, value)
    assert least <= within_two_errors(0.5, 5.0, windows=600) <= most


def test_reads_that_are_always_rare_do_not_count_as_a_stop() -> None:
    reads = [(t, 1.4e9) for t in (0.0, 3.3, 6.6, 10.0)]
    assert error(reads) < 20e6


def test_activity_weighs_the_error() -> None:
    """Where the tensor pipe did nothing, the clock does not matter."""
    made = curve(at_each(0.5, lambda t: 1.4e9 if t % 2 < 1 else 1.9e9))
    assert made.error([Weighed(0.0, 10.0, 0.0)]) == 0.0
    half = made.error([Weighed(0.0, 5.0, 0.1), Weighed(5.0, 10.0, 0.0)])
    whole = made.error([WHOLE])
    assert half is not None
    assert whole is not None
    assert half == pytest.approx(whole / math.sqrt(2), rel=0.1)
    late = made.error([Weighed(0.0, 5.0, 0.0), Weighed(5.0, 10.0, 0.1)])
    assert made.error([Weighed(5.0, 10.0, 0.1)]) == pytest.approx(late)
