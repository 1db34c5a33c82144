"""What one GPU's readings and faults make of what is remembered of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.ofu.gpu_state import GpuState, expire, take_fault, take_reading, view
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Evidence, Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.values import fault, gpu, reading


class Watched:
    """One GPU, as it becomes with every reading."""

    def __init__(self) -> None:
        self.known = GpuState(gpu(), rate(gpu()), 0.0)

    def take(self, *readings: Reading) -> GpuState:
        for each in readings:
            self.known, _ = take_reading(self.known, each, 5.0)
        return self.known

    def method(self) -> str:
        assert self.known.window is not None
        return self.known.window.clock_method


@pytest.fixture
def watched() -> Watched:
    return Watched()


def counted(start: float, end: float) -> Reading:
    """A window of a GPU that has run at 1400 MHz and half busy since time 0, by its cycle counters."""
    elapsed = end * 1400e6
    return reading(start, end, 0.5, hz=[1428e6] * 10, cycles=(elapsed, elapsed / 2))


TRUSTED = [counted(5.0 * number, 5.0 * number + 5) for number in range(6)]


def test_what_is_seen_of_a_gpu_is_what_is_known_of_it(watched: Watched) -> None:
    known = watched.take(reading(0, 5))
    shown = view(known, (Job("slurm", "1"),), "dcgm")
    assert (shown.source, shown.holders) == ("dcgm", (Job("slurm", "1"),))
    assert (shown.sampled_at, shown.fresh_until) == (5.0, known.fresh_until)
    assert shown.fresh_until == 5 + 2.5 * 5 + 1


def test_a_window_is_shown_as_long_as_the_next_may_take(watched: Watched) -> None:
    """A short one, after a cut, is followed by one of the usual length."""
    known = watched.take(reading(0, 1))
    assert known.fresh_until == 1 + 2.5 * 5 + 1
    assert expire(known, known.fresh_until) == known
    assert expire(known, known.fresh_until + 0.001).reason is Reason.STALE


def test_counters_are_not_trusted_over_a_fault_though_no_time_was_lost(watched: Watched) -> None:
    watched.take(*TRUSTED)
    assert watched.method() == "cycles"
    watched.known = take_fault(watched.known, fault(30.0))
    watched.take(counted(30, 35))
    assert watched.method() == "polled"


def test_nor_over_a_reading_that_was_not_believed(watched: Watched) -> None:
    watched.take(*TRUSTED)
    watched.take(reading(28, 27))
    assert watched.known.detail == "the source's time runs backwards"
    watched.take(counted(30, 35))
    assert (watched.method(), watched.known.detail) == ("polled", "")


def test_what_made_counters_suspicious_is_forgotten_with_a_fault(watched: Watched) -> None:
    def dead(number: int) -> Reading:
        busy = Evidence(1.0, 0.0, 0.9)
        return replace(reading(5 * number, 5 * number + 5, tensor=0.0), evidence=busy)

    watched.take(dead(0), dead(1))
    watched.known = take_fault(watched.known, fault(10.0))
    watched.take(dead(2), dead(3))
    assert watched.known.reason is None
    watched.take(dead(4))
    assert watched.known.reason is Reason.IMPLAUSIBLE


def test_a_window_that_cannot_be_takes_the_last_one_away_and_says_why(watched: Watched) -> None:
    known = watched.take(reading(0, 5), reading(5, 10, tensor=7.0), reading(10, 15, tensor=8.0))
    assert (known.window, known.reason) == (None, Reason.IMPOSSIBLE)
    assert known.detail == "tensor_out_of_range"
    assert known.rejected == {"tensor_out_of_range": 2}
    assert known.observed_seconds == 5.0


def test_a_window_without_an_ofu_is_shown_with_the_reason_and_counts_nothing(
    watched: Watched,
) -> None:
    watched.known = take_fault(watched.known, fault(0.0))
    known = watched.take(reading(0, 5, tensor=None))
    assert known.window is not None
    assert (known.reason, known.detail) == (Reason.NO_TENSOR_COUNTER, "")
    assert (known.observed_seconds, known.sampled_at) == (0.0, None)
    known = watched.take(reading(5, 10, hz=[]))
    assert known.reason is Reason.NO_CLOCK


def test_a_good_window_ends_the_fault_with_its_detail(watched: Watched) -> None:
    watched.known = take_fault(watched.known, fault(0.0))
    assert watched.known.detail == "detail"
    known = watched.take(reading(0, 5))
    assert (known.reason, known.detail) == (None, "")


def test_a_window_without_length_is_too_short_and_not_backwards(watched: Watched) -> None:
    assert watched.take(reading(5, 5)).rejected == {"window_too_short": 1}
