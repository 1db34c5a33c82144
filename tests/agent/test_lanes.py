"""The lanes: monotonic deadlines, and windows that end when a job comes or goes."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.agent.lanes import Deadlines, Lane, SamplingPace
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS, Fault, Reading
from tests.helpers.agent import SOON, until
from tests.helpers.values import gpu


@given(st.floats(0.05, 30), st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_deadlines_do_not_drift_and_count_what_was_missed(step: float, late: list[float]) -> None:
    deadlines, now, beats = Deadlines(7.0, step), 7.0, 0
    for delay in late:
        now = max(now, deadlines.next_at) + delay
        number, missed = deadlines.beat(now)
        beats += 1 + missed
        assert number == beats - 1
        assert deadlines.next_at == pytest.approx(7.0 + beats * step)
        assert now - (7.0 + number * step) < step * 1.001


def beats(per_window: int, seed: int) -> list[float]:
    """The times of the beats of a hundred windows, in steps, each taken on time."""
    random.seed(seed)
    deadlines, found = Deadlines(0.0, 1.0, per_window), []
    for _ in range(100 * per_window):
        found.append(deadlines.next_at)
        deadlines.beat(found[-1])
    return found


@pytest.mark.parametrize("per_window", [1, 2, 10])
def test_windows_end_on_the_grid_and_polls_anywhere_about_it(per_window: int) -> None:
    found = beats(per_window, seed=1)
    off = [at - number for number, at in enumerate(found)]
    assert [each for number, each in enumerate(off) if number % per_window == 0] == [0.0] * 100
    assert found == sorted(found)
    polls = [each for number, each in enumerate(off) if number % per_window]
    if polls:
        assert min(polls) == pytest.approx(-0.5, abs=0.05)
        assert max(polls) == pytest.approx(0.5, abs=0.05)


def test_a_seed_makes_the_same_polls_again() -> None:
    assert beats(10, seed=1) == beats(10, seed=1) != beats(10, seed=2)


@given(st.floats(0.05, 5), st.integers(2, 60), st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_polls_at_chance_places_are_neither_missed_nor_taken_twice(
    step: float, per_window: int, late: list[float]
) -> None:
    deadlines, now, numbers = Deadlines(7.0, step, per_window), 7.0, [-1]
    for delay in late:
        now = max(now, deadlines.next_at) + delay
        number, missed = deadlines.beat(now)
        assert number == numbers[-1] + 1 + missed
        numbers.append(number)
        assert abs(deadlines.next_at - 7.0 - (number + 1) * step) <= 0.5001 * step


class Stopwatch:
    """A probe whose windows a test looks at."""

    def __init__(self) -> None:
        self.device = gpu()
        self.ends: list[float] = []

    def gpus(self) -> Sequence[Gpu]:
        return [self.device]

    def poll(self) -> None:
        """Nothing to read."""

    def read(self) -> Sequence[Reading | Fault]:
        self.ends.append(time.monotonic())
        return []

    def close(self) -> None:
        """Nothing is held."""


def lane(probe: Stopwatch, pace: SamplingPace) -> Lane:
    started = Lane(probe, pace, queue.SimpleQueue(), time.monotonic)
    started.start()
    return started


def test_a_cut_ends_the_window_at_once() -> None:
    probe = Stopwatch()
    running = lane(probe, SamplingPace(interval=30.0, clock_interval=30.0))
    until(lambda: len(probe.ends) == 1)
    running.cut()
    until(lambda: len(probe.ends) == 2)
    running.stop()
    assert running.join(SOON)
    assert probe.ends[1] - probe.ends[0] >= SHORTEST_WINDOW_SECONDS


def test_many_cuts_make_no_window_shorter_than_the_hardware_allows() -> None:
    probe = Stopwatch()
    running = lane(probe, SamplingPace(interval=0.15, clock_interval=0.05))
    while len(probe.ends) < 10:
        running.cut()
        threading.Event().wait(0.001)
    running.stop()
    assert running.join(SOON)
    lengths = [after - before for before, after in pairwise(probe.ends)]
    assert min(lengths) >= 0.9 * SHORTEST_WINDOW_SECONDS
