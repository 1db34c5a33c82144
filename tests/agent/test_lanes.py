"""A lane: deadlines on a grid, windows and polls beat by beat, and windows that end when a job comes or goes."""

from __future__ import annotations

import math
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.agent.lanes import (
    MOST_ASLEEP,
    Deadlines,
    Delivery,
    Inbox,
    Lane,
    LaneThreads,
    SamplingPace,
)
from ofu_exporter.errors import GpuError
from ofu_exporter.sources import Probe
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS, Fault, Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.agent import SOON, until
from tests.helpers.every import every
from tests.helpers.values import FakeClock, gpu


@given(st.floats(0.05, 30), st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_deadlines_do_not_drift_and_none_is_taken_twice(step: float, late: list[float]) -> None:
    deadlines, now, before = Deadlines(7.0, step), 7.0, -1
    for delay in late:
        now = max(now, deadlines.next_at) + delay
        number = deadlines.take_beat(now)
        assert number > before
        before = number
        assert deadlines.next_at == pytest.approx(7.0 + (number + 1) * step)
        assert now - (7.0 + number * step) < step * 1.001


def beats(per_window: int, seed: int) -> list[float]:
    """The times of the beats of a hundred windows, in steps, each taken on time."""
    random.seed(seed)
    deadlines, found = Deadlines(0.0, 1.0, per_window), []
    for _ in range(100 * per_window):
        found.append(deadlines.next_at)
        deadlines.take_beat(found[-1])
    return found


@every([1, 2, 10])
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
def test_polls_at_chance_places_are_not_taken_twice(
    step: float, per_window: int, late: list[float]
) -> None:
    deadlines, now, before = Deadlines(7.0, step, per_window), 7.0, -1
    for delay in late:
        now = max(now, deadlines.next_at) + delay
        number = deadlines.take_beat(now)
        assert number > before
        before = number
        assert abs(deadlines.next_at - 7.0 - (number + 1) * step) <= 0.5001 * step


class Stopwatch(Probe):
    """A probe whose calls a test looks at, on a clock of the test's own."""

    def __init__(self, clock: FakeClock) -> None:
        self.device = gpu()
        self.clock = clock
        self.polls: list[float] = []
        self.ends: list[float] = []
        self.is_closed = False
        self.error: Exception | None = None
        self.takes = 0.0

    def gpus(self) -> Sequence[Gpu]:
        return [self.device]

    def poll(self) -> None:
        self.polls.append(self.clock.now)

    def read(self) -> Sequence[Reading | Fault]:
        if self.error is not None:
            raise self.error
        self.ends.append(self.clock.now)
        self.clock.now += self.takes
        return []

    def close(self) -> None:
        self.is_closed = True


class Bench:
    """One lane, driven by the test."""

    def __init__(self, pace: SamplingPace) -> None:
        self.clock = FakeClock(100.0)
        self.probe = Stopwatch(self.clock)
        self.inbox: Inbox = queue.SimpleQueue()
        self.lane = Lane(self.probe, pace, self.inbox, self.clock)

    def drive(self, at: float, number: int) -> None:
        self.clock.now = at
        self.lane.drive(number)

    def delivered(self) -> list[Delivery]:
        found = []
        while not self.inbox.empty():
            delivery = self.inbox.get()
            assert delivery is not None
            found.append(delivery)
        return found


PACE = SamplingPace(interval=1.0, clock_interval=0.25)


def test_a_window_is_read_at_every_fourth_beat_and_polled_at_the_others() -> None:
    bench = Bench(PACE)
    for number in range(9):
        bench.drive(100 + number / 4, number)
    assert bench.probe.ends == [100.0, 101.0, 102.0]
    assert bench.probe.polls == [100.25, 100.5, 100.75, 101.25, 101.5, 101.75]
    assert [delivery.missed for delivery in bench.delivered()] == [0, 0, 0]


def test_how_long_a_read_took_is_delivered_with_it() -> None:
    bench = Bench(PACE)
    bench.probe.takes = 0.125
    bench.drive(100.0, 0)
    assert [delivery.seconds for delivery in bench.delivered()] == [0.125]


def test_the_same_beat_is_taken_once_and_missed_ones_are_counted() -> None:
    bench = Bench(PACE)
    bench.drive(100.0, 0)
    bench.drive(100.1, 0)
    bench.drive(100.5, 2)
    bench.drive(101.75, 7)
    assert bench.probe.ends == [100.0, 101.75]
    assert [delivery.missed for delivery in bench.delivered()] == [0, 1 + 4]


def test_a_window_that_began_late_ends_with_its_beat() -> None:
    bench = Bench(SamplingPace(SHORTEST_WINDOW_SECONDS, SHORTEST_WINDOW_SECONDS))
    bench.drive(100.005, 0)
    bench.drive(100.1, 1)
    assert bench.probe.ends == [100.005, 100.1]


def test_a_cut_ends_the_window_as_soon_as_it_may_end() -> None:
    bench = Bench(PACE)
    bench.drive(100.0, 0)
    assert bench.lane.cut_at == math.inf
    bench.lane.cut()
    assert bench.lane.cut_at == 100.0 + SHORTEST_WINDOW_SECONDS
    bench.drive(100.05, 0)
    assert bench.probe.ends == [100.0], "the hardware allows no shorter window"
    bench.drive(100.3, 0)
    assert bench.probe.ends == [100.0, 100.3]
    assert bench.lane.cut_at == math.inf


def test_a_window_that_would_be_too_short_after_a_cut_ends_at_the_next_beat() -> None:
    bench = Bench(PACE)
    bench.drive(100.0, 0)
    bench.lane.cut()
    bench.drive(100.95, 3)
    bench.drive(101.0, 4)
    bench.drive(101.25, 5)
    assert bench.probe.ends == [100.0, 100.95, 101.25]


def test_a_failure_is_delivered_for_each_gpu_and_no_clock_is_polled_until_it_is_over() -> None:
    bench = Bench(PACE)
    bench.probe.error = GpuError(Reason.LOST, "gone")
    bench.drive(100.0, 0)
    bench.drive(100.25, 1)
    (delivery,) = bench.delivered()
    assert delivery.failure is Reason.LOST
    assert [(event.gpu, event.reason) for event in delivery.events if isinstance(event, Fault)] == [
        (bench.probe.device, Reason.LOST)
    ]
    assert bench.probe.polls == []
    bench.probe.error = None
    bench.drive(101.0, 4)
    bench.drive(101.25, 5)
    assert bench.probe.polls == [101.25]


def test_a_gpu_without_counters_rests_and_a_cut_does_not_wake_it() -> None:
    bench = Bench(SamplingPace(interval=1.0, clock_interval=0.25, reprobe=10.0))
    bench.probe.error = GpuError(Reason.NOT_SUPPORTED)
    bench.drive(100.0, 0)
    bench.lane.cut()
    bench.drive(105.0, 20)
    assert bench.lane.cut_at == math.inf
    assert len(bench.delivered()) == 1
    bench.drive(111.0, 44)
    assert len(bench.delivered()) == 1


def test_closing_a_lane_closes_its_probe() -> None:
    bench = Bench(PACE)
    bench.lane.close()
    assert bench.probe.is_closed


QUICK_PACE = SamplingPace(interval=0.2, clock_interval=0.05)


class Watched:
    """A probe that counts its calls, and hangs in the next one while it is told to."""

    def __init__(self, index: int) -> None:
        self.device = gpu(index)
        self.ends: list[float] = []
        self.polls = 0
        self.threads: set[int] = set()
        self.go_on = threading.Event()
        self.go_on.set()
        self.hangs = False
        self.is_closed = False
        self.calls_at_once = 0

    def gpus(self) -> Sequence[Gpu]:
        return [self.device]

    def poll(self) -> None:
        self.polls += 1
        self._call()

    def read(self) -> Sequence[Reading | Fault]:
        self.ends.append(time.monotonic())
        self._call()
        return []

    def close(self) -> None:
        self._call()
        self.is_closed = True

    def hang(self) -> None:
        self.go_on.clear()
        until(lambda: self.hangs)

    def _call(self) -> None:
        self.calls_at_once += 1
        assert self.calls_at_once == 1, "two calls of one probe at once"
        self.threads.add(threading.get_ident())
        self.hangs = not self.go_on.is_set()
        self.go_on.wait(SOON)
        self.hangs = False
        self.calls_at_once -= 1


class Node:
    """Some probes and their threads."""

    def __init__(self, count: int, pace: SamplingPace = QUICK_PACE) -> None:
        self.probes = [Watched(index) for index in range(count)]
        inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.lanes = [
            Lane(probe, pace, inbox, time.monotonic)  # type: ignore[arg-type]
            for probe in self.probes
        ]
        before = set(threading.enumerate())
        self.threads = LaneThreads(self.lanes, pace, time.monotonic)
        self.threads.start()
        self._before = before

    def alive(self) -> int:
        found = (each for each in threading.enumerate() if each not in self._before)
        return sum(each.name == "ofu-lane" for each in found)

    def end(self) -> None:
        for probe in self.probes:
            probe.go_on.set()
        self.threads.stop()
        assert self.threads.join(SOON)
        until(lambda: self.alive() == 0)


@pytest.fixture
def node() -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(count: int, pace: SamplingPace = QUICK_PACE) -> Node:
        made.append(Node(count, pace))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.mark.parametrize(("count", "threads"), [(1, 1), (2, 2), (16, 2)])
def test_two_threads_drive_many_lanes_and_one_drives_one(
    node: Callable[..., Node], count: int, threads: int
) -> None:
    running = node(count)
    until(lambda: all(len(probe.ends) > 5 and probe.polls for probe in running.probes))
    until(lambda: running.alive() == threads)


def test_a_call_that_hangs_holds_up_no_other_lane(node: Callable[..., Node]) -> None:
    running = node(4)
    until(lambda: all(probe.ends for probe in running.probes))
    running.probes[1].hang()
    others = [running.probes[place] for place in (0, 2, 3)]
    before = [len(probe.ends) for probe in others]
    until(lambda: all(len(probe.ends) > n + 5 for probe, n in zip(others, before, strict=True)))
    assert running.probes[1].hangs


def test_all_but_one_may_hang_and_all_come_back(node: Callable[..., Node]) -> None:
    running = node(4)
    until(lambda: all(probe.ends for probe in running.probes))
    for probe in running.probes[:3]:
        probe.hang()
    last = running.probes[3]
    before = len(last.ends)
    until(lambda: len(last.ends) > before + 5)
    counts = [len(probe.ends) for probe in running.probes]
    for probe in running.probes[:3]:
        probe.go_on.set()
    until(
        lambda: all(
            len(probe.ends) > n + 2 for probe, n in zip(running.probes, counts, strict=True)
        )
    )
    until(lambda: running.alive() <= MOST_ASLEEP)


def test_a_hung_lane_does_not_hold_up_the_end_of_the_others(node: Callable[..., Node]) -> None:
    running = node(3)
    until(lambda: all(probe.ends for probe in running.probes))
    running.probes[0].hang()
    running.threads.stop()
    until(lambda: all(probe.is_closed for probe in running.probes[1:]))
    assert not running.threads.join(0.0)
    running.probes[0].go_on.set()
    assert running.threads.join(SOON)
    assert running.probes[0].is_closed


def test_a_close_that_hangs_does_not_either(node: Callable[..., Node]) -> None:
    running = node(3, SamplingPace(interval=30.0, clock_interval=30.0))
    until(lambda: all(probe.ends for probe in running.probes))
    running.probes[0].go_on.clear()
    running.threads.stop()
    until(lambda: all(probe.is_closed for probe in running.probes[1:]))
    assert not running.threads.join(0.0)


@pytest.mark.parametrize("count", [1, 3])
def test_a_cut_ends_every_window_at_once(node: Callable[..., Node], count: int) -> None:
    running = node(count, SamplingPace(interval=30.0, clock_interval=30.0))
    until(lambda: all(len(probe.ends) == 1 for probe in running.probes))
    running.threads.cut()
    until(lambda: all(len(probe.ends) == 2 for probe in running.probes))
    for probe in running.probes:
        # A probe asks for the time itself, a little after its lane did.
        assert probe.ends[1] - probe.ends[0] >= 0.99 * SHORTEST_WINDOW_SECONDS


def test_a_cut_during_a_call_is_taken_after_it(node: Callable[..., Node]) -> None:
    running = node(2, SamplingPace(interval=30.0, clock_interval=30.0))
    until(lambda: all(len(probe.ends) == 1 for probe in running.probes))
    running.probes[0].go_on.clear()
    running.threads.cut()
    until(lambda: running.probes[0].hangs)
    running.threads.cut()
    running.probes[0].go_on.set()
    until(lambda: len(running.probes[0].ends) == 3)


def test_many_cuts_make_no_window_shorter_than_the_hardware_allows(
    node: Callable[..., Node],
) -> None:
    running = node(2, SamplingPace(interval=0.15, clock_interval=0.05))
    while len(running.probes[0].ends) < 10:
        running.threads.cut()
        threading.Event().wait(0.001)
    lengths = [after - before for before, after in pairwise(running.probes[0].ends)]
    assert min(lengths) >= 0.9 * SHORTEST_WINDOW_SECONDS


def test_an_unexpected_error_of_a_lane_costs_no_thread(
    node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = node(1)
    until(lambda: bool(running.probes[0].ends))

    def fails(number: int) -> None:
        running.lanes[0].number = number
        monkeypatch.undo()
        raise KeyError("gone")

    monkeypatch.setattr(running.lanes[0], "drive", fails)
    before = len(running.probes[0].ends)
    until(lambda: len(running.probes[0].ends) > before + 2)


def test_where_no_thread_can_be_begun_the_one_there_is_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = threading.Thread.start
    begun: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if thread.name == "ofu-lane" and begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        whole(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    running = Node(3)
    until(lambda: all(len(probe.ends) > 3 for probe in running.probes))
    assert running.alive() == 1
    running.end()
