"""The threads of the lanes: few while all is well, and never one that another GPU's call holds up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest

from ofu_exporter.agent.lane_threads import MOST_ASLEEP, LaneThreads
from ofu_exporter.agent.lanes import Lane, SamplingPace
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import SHORTEST_WINDOW_SECONDS, Fault, Reading
from tests.helpers.agent import SOON, until
from tests.helpers.values import gpu

PACE = SamplingPace(interval=0.2, clock_interval=0.05)


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

    def __init__(self, count: int, pace: SamplingPace = PACE) -> None:
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

    def make(count: int, pace: SamplingPace = PACE) -> Node:
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
        assert probe.ends[1] - probe.ends[0] >= SHORTEST_WINDOW_SECONDS


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
