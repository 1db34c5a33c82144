"""The pace: monotonic deadlines, one thread per probe, and nothing that one GPU does to another."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.agent import until
from tests.helpers.sampled import PACE, SOON, FakeProbe, FakeSource, Watch, fails, reasons, sampler
from tests.helpers.values import gpu


def test_windows_are_whole_numbers_of_clock_reads() -> None:
    assert SamplingPace(5.0, 0.5).reads_per_window == 10
    assert SamplingPace(0.1, 0.5).step_seconds == pytest.approx(0.1)
    assert SamplingPace(1.0, 0.3).step_seconds == pytest.approx(1 / 3)


def test_every_gpu_is_measured_and_its_clock_polled_in_between(watch: Watch) -> None:
    probes = [FakeProbe(gpu(0)), FakeProbe(gpu(1))]
    agent = sampler(watch, ("fake", FakeSource(*probes)))
    agent.start()
    snapshot = watch.until(
        lambda s: (
            [v.observed_seconds > 0.3 for v in s.gpus] == [True, True]
            and all(probe.polls for probe in probes)
        )
    )
    assert agent.stop()
    assert snapshot.source.up
    assert snapshot.source.name == "fake"


@pytest.mark.slow
def test_a_call_that_hangs_costs_the_other_gpus_nothing(watch: Watch) -> None:
    release = threading.Event()
    hanging = FakeProbe(gpu(1), lambda: void(release.wait(SOON)))
    agent = sampler(watch, ("fake", FakeSource(FakeProbe(gpu(0)), hanging)))
    agent.start()
    # Of windows of the least length, one after a late one is too short to count: the next ones do.
    snapshot = watch.until(lambda s: reasons(s) == {"0": None, "1": Reason.HUNG})
    more = snapshot.gpus[0].observed_seconds + PACE.hung_after
    snapshot = watch.until(lambda s: s.gpus[0].observed_seconds > more)
    assert reasons(snapshot)["1"] is Reason.HUNG
    release.set()
    watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert agent.stop()


def void(_: object) -> None:
    return None


def test_a_gpu_that_fails_is_down_with_its_reason_and_comes_back(watch: Watch) -> None:
    probe = FakeProbe(gpu(1), fails(Reason.LOST))
    agent = sampler(watch, ("fake", FakeSource(FakeProbe(gpu(0)), probe)))
    agent.start()
    snapshot = watch.until(
        lambda s: reasons(s) == {"0": None, "1": Reason.LOST} and s.source.failures["lost"] > 1
    )
    assert snapshot.source.up
    probe.behave = lambda: None
    watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    assert agent.stop()


def test_an_unexpected_error_is_a_fault_of_that_gpu(watch: Watch) -> None:
    def explode() -> None:
        raise ZeroDivisionError("surprise")

    agent = sampler(watch, ("fake", FakeSource(FakeProbe(gpu(0)), FakeProbe(gpu(1), explode))))
    agent.start()
    snapshot = watch.until(lambda s: reasons(s) == {"0": None, "1": Reason.FAILED})
    assert snapshot.gpus[1].detail == "ZeroDivisionError: surprise"
    assert agent.stop()


def test_stopping_releases_every_handle(watch: Watch) -> None:
    probes = [FakeProbe(gpu(i)) for i in range(3)]
    source = FakeSource(*probes)
    agent = sampler(watch, ("fake", source), pace=SamplingPace(30.0, 30.0))
    agent.start()
    watch.until(lambda s: len(s.gpus) == 3)
    began = time.monotonic()
    assert agent.stop()
    assert time.monotonic() - began < 1.0
    assert all(probe.closed.is_set() for probe in probes)
    assert source.closed.is_set()


def test_a_hanging_call_does_not_hold_up_the_stop(watch: Watch) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        release.wait(SOON)

    source = FakeSource(FakeProbe(gpu(0), hang))
    agent = sampler(watch, ("fake", source))
    agent.start()
    assert entered.wait(SOON)
    assert not agent.stop(0.2)
    assert not source.closed.is_set(), "the library must not be shut under a call"
    release.set()


def threads_end(before: set[threading.Thread]) -> None:
    """Wait for every thread that was started since."""
    for thread in set(threading.enumerate()) - before:
        thread.join(SOON)
        assert not thread.is_alive(), thread.name


@pytest.mark.parametrize("outcome", [None, SourceError(Reason.NO_DRIVER)])
def test_a_source_that_hangs_while_it_is_opened_shows_nothing_after_the_stop(
    watch: Watch, outcome: SourceError | None
) -> None:
    before = set(threading.enumerate())
    slow = FakeSource(FakeProbe(gpu(0)), error=outcome)
    next_one = FakeSource(FakeProbe(gpu(0)))
    slow.answers.clear()
    agent = sampler(watch, ("slow", slow), ("next", next_one))
    agent.start()
    until(lambda: slow.opened)
    assert not agent.stop(0.1), "the call has not returned"
    published, state = watch.published, agent.state
    slow.answers.set()
    threads_end(before)
    assert (watch.published, agent.state) == (published, state)
    assert (slow.opened, next_one.opened) == (1, 0), "nothing is opened after the stop"
    assert slow.closed.is_set() == (outcome is None), "what was opened is closed"


def test_the_next_source_is_read_where_the_opening_of_the_first_hangs(watch: Watch) -> None:
    slow = FakeSource(FakeProbe(gpu(0)))
    slow.answers.clear()
    agent = sampler(watch, ("slow", slow), ("next", FakeSource(FakeProbe(gpu(0)))))
    agent.start()
    watch.until(lambda s: reasons(s) == {"0": None} and s.source.name == "next")
    slow.answers.set()
    assert agent.stop()


def test_a_source_whose_opening_hangs_is_reported_as_hung(watch: Watch) -> None:
    slow = FakeSource(FakeProbe(gpu(0)))
    slow.answers.clear()
    agent = sampler(watch, ("slow", slow))
    agent.start()
    snapshot = watch.until(lambda s: s.source.reason is Reason.HUNG)
    assert snapshot.source.detail == "slow: it does not finish opening"
    slow.answers.set()
    watch.until(lambda s: reasons(s) == {"0": None})
    assert agent.stop()


def test_the_sampler_itself_ends_at_once_where_the_opening_of_a_source_hangs(watch: Watch) -> None:
    slow = FakeSource(FakeProbe(gpu(0)))
    slow.answers.clear()
    agent = sampler(watch, ("slow", slow), pace=SamplingPace(30.0, 30.0))
    agent.start()
    until(lambda: slow.opened)
    agent.stop(0.0)
    until(lambda: all(each.name != "ofu-sampler" for each in threading.enumerate()), SOON / 2)
    slow.answers.set()


def test_a_tick_that_outlasts_the_stop_is_neither_shown_nor_remembered(watch: Watch) -> None:
    before = set(threading.enumerate())
    entered, release = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        entered.set()
        release.wait(SOON)

    source = FakeSource(FakeProbe(gpu(0)))
    source.closing_seconds = 0.1
    agent = sampler(watch, ("fake", source))
    agent.tap = hang
    agent.start()
    assert entered.wait(SOON)
    assert not agent.stop(0.1)
    assert source.closed.is_set(), "the next source opens after that"
    published, state = watch.published, agent.state
    release.set()
    threads_end(before)
    assert (watch.published, agent.state) == (published, state)


@pytest.mark.slow
def test_one_bad_tick_is_not_the_last(watch: Watch) -> None:
    agent = sampler(watch, ("fake", FakeSource(FakeProbe(gpu(0)))))
    once = iter([ZeroDivisionError("surprise")])

    def tap(*_: object) -> None:
        for error in once:
            raise error

    agent.tap = tap
    agent.start()
    snapshot = watch.until(lambda s: reasons(s) == {"0": None} and "failed" in s.source.failures)
    assert snapshot.source.failures["failed"] == 1
    assert agent.stop()


@pytest.mark.slow
def test_a_gpu_without_counters_is_looked_at_again_at_a_slow_pace(watch: Watch) -> None:
    looks: list[float] = []

    def behave() -> None:
        looks.append(time.monotonic())
        raise GpuError(Reason.NOT_SUPPORTED)

    pace = SamplingPace(interval=0.1, clock_interval=0.05, reprobe=0.5)
    source = FakeSource(FakeProbe(gpu(0)), FakeProbe(gpu(1), behave))
    agent = sampler(watch, ("nvml", source), pace=pace)
    agent.start()
    watch.until(lambda _: len(looks) > 2)
    assert agent.stop()
    assert all(after - before > 0.45 for before, after in pairwise(looks))


def test_a_late_thread_counts_what_it_missed_and_does_not_catch_up(watch: Watch) -> None:
    once = iter([lambda: void(threading.Event().wait(0.45))])
    reads: list[float] = []

    def slow_once() -> None:
        reads.append(time.monotonic())
        next(once, lambda: None)()

    agent = sampler(watch, ("fake", FakeSource(FakeProbe(gpu(0), slow_once))))
    agent.start()
    snapshot = watch.until(lambda s: len(reads) > 4 and s.source.missed_deadlines > 0)
    assert agent.stop()
    assert snapshot.source.missed_deadlines >= 6
    turns = (reads[-1] - reads[0] - 0.45) / 0.1
    assert len(reads) - 1 <= turns + 2, "no read for each turn that was missed"


# Letting go.


class CountedSource(FakeSource):
    """Makes fresh probes at each opening, and knows how many are open."""

    def __init__(self, *devices: Gpu) -> None:
        super().__init__()
        self.devices = devices
        self.hold = threading.Event()
        self.hold.set()
        self.open_now = 0

    def open(self) -> Sequence[FakeProbe]:
        self.open_now += 1
        self.opened += 1
        self.hold.wait()
        self.probes = tuple(FakeProbe(device) for device in self.devices)
        return self.probes

    def close(self) -> None:
        self.open_now -= 1
        assert all(probe.closed.is_set() for probe in self.probes)


def test_a_pause_lets_go_of_everything_and_a_resume_opens_it_anew(watch: Watch) -> None:
    source = CountedSource(gpu(0), gpu(1))
    agent = sampler(watch, ("fake", source))
    agent.start()
    watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    agent.set_paused(True)
    snapshot = watch.until(lambda s: s.released)
    assert source.open_now == 0
    assert (snapshot.paused, snapshot.source.up) == (True, False)
    assert reasons(snapshot) == {"0": Reason.PAUSED, "1": Reason.PAUSED}
    agent.set_paused(False)
    watch.until(lambda s: not s.paused and reasons(s) == {"0": None, "1": None})
    assert agent.stop()
    assert (source.opened, source.open_now) == (2, 0)


def test_nothing_is_held_while_a_snapshot_says_that_it_is_not(watch: Watch) -> None:
    source = CountedSource(gpu(0))
    held: list[int] = []
    shown = watch.publish

    def publish(snapshot: Snapshot) -> None:
        shown(snapshot)
        held.append(source.open_now if snapshot.released else 0)

    watch.publish = publish  # type: ignore[method-assign]
    agent = sampler(watch, ("fake", source))
    agent.start()
    for number in range(40):
        agent.set_paused(number % 2 == 0)
        time.sleep(0.01 * (number % 7))
    agent.set_paused(False)
    watch.until(lambda s: not s.paused and reasons(s) == {"0": None})
    assert source.open_now == 1
    assert agent.stop()
    assert source.open_now == 0
    assert not any(held)


def test_a_source_that_is_being_opened_is_let_go_of_when_that_ends(watch: Watch) -> None:
    source = CountedSource(gpu(0))
    source.hold.clear()
    agent = sampler(watch, ("fake", source))
    agent.start()
    watch.until(lambda s: s.source.reason is Reason.HUNG)
    agent.set_paused(True)
    snapshot = watch.until(lambda s: s.paused)
    assert not snapshot.released
    assert snapshot.source.reason is Reason.HUNG
    source.hold.set()
    watch.until(lambda s: s.released)
    assert source.open_now == 0
    assert agent.stop()


def test_after_a_reload_a_pause_lets_go_of_a_call_from_before_it_too(watch: Watch) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        release.wait(SOON)

    hanging = FakeSource(FakeProbe(gpu(0), hang))
    before = sampler(watch, ("fake", hanging))
    before.start()
    assert entered.wait(SOON)
    assert not before.stop(0.2)
    agent = sampler(watch, ("fake", FakeSource(FakeProbe(gpu(0)))))
    agent.close_left_of(before)
    agent.set_paused(True)
    agent.start()
    watch.until(lambda s: s.paused)
    assert not watch.until(lambda s: s.source.reason is Reason.HUNG).released
    release.set()
    watch.until(lambda s: s.released)
    assert hanging.closed.is_set()
    assert agent.stop()


def test_a_gpu_that_is_gone_after_a_pause_is_not_said_to_be_paused(watch: Watch) -> None:
    source = CountedSource(gpu(0), gpu(1))
    agent = sampler(watch, ("fake", source))
    agent.start()
    watch.until(lambda s: reasons(s) == {"0": None, "1": None})
    agent.set_paused(True)
    watch.until(lambda s: s.released)
    source.devices = (gpu(0),)
    agent.set_paused(False)
    snapshot = watch.until(lambda s: reasons(s)["0"] is None)
    assert reasons(snapshot) == {"0": None, "1": Reason.STALE}
    assert agent.stop()


@pytest.mark.slow
def test_a_pause_does_not_wait_for_the_next_try_of_a_source(watch: Watch) -> None:
    """Those come up to a minute apart."""
    source = FakeSource(error=SourceError(Reason.NO_DRIVER))
    agent = sampler(watch, ("fake", source))
    agent.start()
    until(lambda: source.opened == 3)  # after 2 s and 4 s more; now eight lie between two
    tries = source.opened
    agent.set_paused(True)
    watch.until(lambda s: s.released)
    assert source.opened == tries
    assert agent.stop()
