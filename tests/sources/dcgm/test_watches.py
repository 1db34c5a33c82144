"""Watches are kept, ended and made anew, and no device takes another one's with it."""

from __future__ import annotations

import bisect
import itertools
import random

import pytest

from ofu_exporter.sources.dcgm import driver
from ofu_exporter.sources.dcgm.fields import (
    CLOCK_SECONDS,
    CYCLES_ELAPSED,
    CYCLES_TENSOR,
    PIPES,
    TENSOR,
)
from ofu_exporter.sources.dcgm.host_engine import HostEngine
from ofu_exporter.sources.dcgm.library import Library
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.dcgm_node import FIRST, SECOND, START, DcgmNode, faults, readings


def test_counters_that_bring_nothing_are_watched_no_longer(node: DcgmNode) -> None:
    """The host engine logs an error for each of them at every interval."""
    node.scenario.gpu(0, cycles=0, no_field=PIPES["dfma"], tensor=0.5)
    node.scenario.gpu(1, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    first, second = node.window(probe)
    assert [node.is_watched(field, FIRST) for field in (CYCLES_ELAPSED, CYCLES_TENSOR)] == [0, 0]
    assert not node.is_watched(PIPES["dfma"], FIRST)
    assert node.is_watched(PIPES["hmma"], FIRST)
    assert all(node.is_watched(f, SECOND) for f in (CYCLES_ELAPSED, *PIPES.values()))
    assert first.cycles is None
    assert set(first.pipes) == {"hmma", "imma"}
    assert second.cycles is not None
    (first, second) = node.window(probe)
    assert (first.tensor_active, second.tensor_active) == (0.5, 0.5)


@pytest.mark.slow
def test_a_gpu_whose_tensor_counter_has_no_value_is_tried_more_and_more_rarely(
    node: DcgmNode,
) -> None:
    """The host engine logs an error at every poll of each field, for all of its users to read."""
    node.scenario.gpu(0, blank=1)
    probe = node.opened()
    watched = []
    for _ in range(400):
        for fault in node.events(probe):
            assert isinstance(fault, Fault)
            assert fault.reason is Reason.BLANK
            assert "no value" in fault.detail
        watched.append(node.is_watched(TENSOR))
    rests = [len(list(group)) for on, group in itertools.groupby(watched) if not on]
    assert rests[:4] == [6, 12, 24, 48]
    assert sum(watched[100:]) <= 6
    node.scenario.gpu(0, blank=0, tensor=0.5)
    back = [event for _ in range(105) for event in node.events(probe)]
    assert isinstance(back[-1], Reading)
    assert node.is_watched(TENSOR)
    assert back[-1].tensor_active == pytest.approx(0.5)


@pytest.mark.parametrize("version", ["3.1", "4.0", "4.5"])
def test_a_host_engine_without_cycle_counters_has_all_the_rest(
    node: DcgmNode, version: str
) -> None:
    node.scenario.add(f"version {version}")
    node.scenario.gpu(0, tensor=0.5, hmma=0.5)
    (reading,) = node.window(node.opened())
    assert reading.cycles is None
    assert reading.tensor_active == pytest.approx(0.5)
    assert reading.pipes["hmma"] == pytest.approx(0.5)


def test_watches_that_the_host_engine_forgot_are_made_anew(node: DcgmNode) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    node.window(probe)
    node.scenario.add("forget")
    assert faults(node.events(probe)) == [("0", Reason.STALE)]
    node.events(probe)
    (reading,) = node.window(probe)
    assert (reading.end, reading.tensor_active) == (node.now, 0.5)
    assert len(reading.clocks) > 0.9 * 5.0 / CLOCK_SECONDS


def test_a_gpu_that_cannot_be_watched_says_why_and_is_tried_again(node: DcgmNode) -> None:
    node.scenario.gpu(1)
    node.scenario.error("dcgmGroupAddEntity", -19, gpu=1)
    probe = node.opened()
    for _ in range(3):
        events = node.events(probe)
        assert faults(events) == [("1", Reason.LOST)]
        assert [r.gpu.index for r in readings(events)] == ["0"]
    node.scenario.error("dcgmGroupAddEntity", 0, gpu=1)
    node.events(probe, 30.0)
    assert {r.gpu.index for r in node.window(probe)} == {"0", "1"}


def test_a_gpu_that_cannot_be_watched_does_not_keep_the_others_from_it(node: DcgmNode) -> None:
    for index in range(3):
        node.scenario.gpu(index, tensor=0.5)
    node.scenario.error("dcgmWatchFields", -34, gpu=1)
    probe = node.opened()
    events = node.events(probe)
    assert faults(events) == [("1", Reason.COUNTER_BUSY)]
    assert [r.gpu.index for r in readings(events)] == ["0", "2"]
    assert all(len(r.clocks) > 3 for r in readings(events))


def test_a_gpu_that_brings_nothing_for_long_is_watched_anew(node: DcgmNode) -> None:
    probe = node.opened()
    node.window(probe)
    node.scenario.error("dcgmWatchFields", -34, gpu=0)  # shows when it is tried
    reasons = []
    for _ in range(10):
        node.now += 5.0  # the host engine stands still
        reasons.append(faults(probe.read())[-1][1])
    assert reasons == [Reason.STALE] * 5 + [Reason.COUNTER_BUSY] * 5


def test_another_client_that_watches_faster_makes_more_samples_and_no_other_mean(
    node: DcgmNode,
) -> None:
    node.scenario.gpu(0, tensor=0.5)
    probe = node.opened()
    library = Library()
    engine = HostEngine(library, "127.0.0.1:5555", node.unix)
    watch = engine.watch([FIRST], [TENSOR], 0.125)
    node.advance(2.0)
    node.scenario.gpu(0, tensor=0.9)
    (reading,) = node.window(probe, 2.0)
    assert reading.tensor_active == pytest.approx((2 * 0.5 + 2 * 0.9) / 4)
    watch.close()
    engine.close()
    library.close()
    assert node.window(probe)[-1].tensor_active == pytest.approx(0.9)


def test_another_client_that_watches_slower_delays_the_first_window_only(node: DcgmNode) -> None:
    library = Library()
    engine = HostEngine(library, "127.0.0.1:5555", node.unix)
    watch = engine.watch([FIRST], [TENSOR], 20.0)
    node.scenario.gpu(0, tensor=1.0)
    node.advance(10.0)
    probe = node.open()
    node.advance(9.0)
    node.scenario.gpu(0, tensor=0.5)
    probe.read()
    (reading,) = readings(node.events(probe, 6.0))
    assert reading.start == pytest.approx(START + 20.0)
    assert reading.tensor_active == pytest.approx(0.5)
    watch.close()
    engine.close()
    library.close()


class OtherClient:
    """Another client of the host engine, that has a field sampled of every GPU."""

    def __init__(self, node: DcgmNode, field: int) -> None:
        self._node, self._field = node, field

    def watch(self, seconds: float) -> None:
        self._node.scenario.add(f"watch {self._field} {seconds}")

    def leave(self) -> None:
        self._node.scenario.add(f"watch {self._field} 0")


class Work:
    """Activity that changes every tenth of a second, and its integral."""

    def __init__(self, node: DcgmNode) -> None:
        self._node = node
        self._chance = random.Random(5)
        self._at, self._done = [node.now], [0.0]

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            tensor = round(self._chance.random(), 3)
            self._node.scenario.gpu(0, tensor=tensor, hmma=tensor, dmma=tensor / 4)
            self._node.advance(0.1)
            self._at.append(self._node.now)
            self._done.append(self._done[-1] + 0.1 * tensor)

    def mean(self, start: float, end: float) -> float:
        return (self._until(end) - self._until(start)) / (end - start)

    def _until(self, time: float) -> float:
        after = min(bisect.bisect_right(self._at, time), len(self._at) - 1)
        share = (time - self._at[after - 1]) / (self._at[after] - self._at[after - 1])
        return self._done[after - 1] + share * (self._done[after] - self._done[after - 1])


def found_in(node: DcgmNode, work: Work, probe: driver.Probe) -> list[Reading]:
    """The windows of half a minute, read as the agent does."""
    found: list[Reading] = []
    for _ in range(6):
        work.go_on(5.0)
        found += readings(probe.read())
    return found


@pytest.mark.parametrize("field", [1001, TENSOR, PIPES["imma"], PIPES["hmma"], CYCLES_TENSOR])
@pytest.mark.parametrize("leaves", [False, True])
def test_whatever_phase_a_field_has_every_number_is_of_the_windows_own_time(
    node: DcgmNode, field: int, leaves: bool
) -> None:
    """Seen on a real host engine beside a client: 1004 at .352 of each second, 1013 at .558, for good."""
    other, work = OtherClient(node, field), Work(node)
    other.watch(1.0)
    work.go_on(3.3)
    probe = node.open()
    if leaves:
        work.go_on(7.4)
        other.leave()
    first, *found = found_in(node, work, probe)
    assert len(found) >= 4
    assert all(a.end == b.start for a, b in itertools.pairwise([first, *found]))
    for reading in found:
        for part in reading.samples:
            assert part.tensor_active == pytest.approx(work.mean(part.start, part.end), abs=1e-6)
        # Of a field that ends elsewhere than the window, a sample is cut at each end.
        cut = 0.03 if field == PIPES["hmma"] else 1e-6
        assert reading.pipes["hmma"] == pytest.approx(
            work.mean(reading.start, reading.end), abs=cut
        )
    evidence = [reading.evidence for reading in found]
    assert all(e is not None and None not in (e.busy_ratio, *e[1:3]) for e in evidence)
    assert node.source.rejected.get("field_missing", 0) == 0
    if (
        field != CYCLES_TENSOR
    ):  # where its totals are of other instants than 1084's, nothing is made of them
        assert_cycles_are_true([first, *found], work)
    other.leave()


def assert_cycles_are_true(found: list[Reading], work: Work) -> None:
    totals = [reading.cycles for reading in found if reading.cycles is not None]
    assert len(totals) == len(found)
    for reading, (before, after) in zip(found[1:], itertools.pairwise(totals), strict=True):
        truth = work.mean(reading.start, reading.end)
        share = (after.tensor - before.tensor) / (after.elapsed - before.elapsed)
        assert share == pytest.approx(truth, abs=1e-6)
        assert reading.pipes["dmma"] == pytest.approx(truth / 4, abs=1e-6)


def test_a_client_that_watches_faster_for_a_while_and_leaves_costs_no_field(node: DcgmNode) -> None:
    """Pipes and evidence were gone after that until a restart."""
    work, other = Work(node), OtherClient(node, TENSOR)
    probe = node.open()
    work.go_on(6.0)
    probe.read()
    other.watch(0.3)
    work.go_on(2.0)
    other.leave()
    found_in(node, work, probe)
    for reading in found_in(node, work, probe):
        assert reading.tensor_active == pytest.approx(work.mean(reading.start, reading.end))
        assert reading.pipes["hmma"] == pytest.approx(reading.tensor_active)
        assert reading.evidence is not None
        assert None not in (reading.evidence.busy_ratio, *reading.evidence[1:3])
