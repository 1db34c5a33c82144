"""The totals of a job, tick by tick: what it held, what was observed, and its OFU."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ofu_exporter.ofu.job_state import (
    GRACE_SECONDS,
    GRAIN_SECONDS,
    MOST_ENDED,
    RECENT_SECONDS,
    observed,
)
from ofu_exporter.values.job import Claim, Job
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import fault, gpu, reading

A, B = Job("slurm", "1", user="ada"), Job("slurm", "2")
CLOCK = 1400e6 / 1830e6


def test_a_job_gets_the_windows_of_its_gpus_and_no_other() -> None:
    node = Node(2)
    node.give(10.0, whole(A, "0"))
    node.run(10.0, 40.0)
    view = node.job()
    assert view.observed_seconds == pytest.approx(30.0)
    assert view.utilization_seconds == pytest.approx(30.0 * 0.5 * CLOCK)
    assert view.held_seconds == pytest.approx(30.0)
    assert [usage.key for usage in view.usage] == [gpu(0).key]


def test_a_job_is_there_with_zeros_from_the_instant_it_starts() -> None:
    node = Node()
    node.give(10.0, whole(A, "0"))
    assert node.job().observed_seconds == 0.0
    assert [view.holders for view in node.last.gpus] == [(A,), ()]


def test_time_in_which_a_gpu_was_not_measured_is_held_and_not_observed() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.tick(15.0, fault(15.0))
    node.tick(20.0, fault(20.0))
    assert node.job().held_seconds == pytest.approx(20.0)
    assert node.job().observed_seconds == pytest.approx(10.0)


def test_a_job_grows_moves_and_shrinks() -> None:
    node = Node(2)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(A, "0", "1"))
    node.run(10.0, 20.0)
    node.give(20.0, whole(A, "1"))
    node.run(20.0, 30.0)
    seconds = {usage.index: usage.observed_seconds for usage in node.job().usage}
    assert seconds == {"0": pytest.approx(20.0), "1": pytest.approx(20.0)}


def test_a_job_that_ended_is_shown_for_a_while_and_then_leaves() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.give(10.0)
    assert node.job().ended == pytest.approx(EPOCH + 10.0)
    total = node.job().utilization_seconds
    node.tick(10.0 + GRACE_SECONDS - 1.0)
    assert node.job().utilization_seconds == total
    assert node.job().held_seconds == pytest.approx(10.0)
    node.tick(10.0 + GRACE_SECONDS)
    assert not node.last.jobs


def test_a_job_that_comes_back_goes_on() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.give(10.0)
    node.give(60.0, whole(A, "0"))
    node.run(60.0, 70.0)
    assert node.job().ended is None
    assert node.job().observed_seconds == pytest.approx(20.0)


def test_another_job_under_the_same_name_begins_at_zero() -> None:
    node = Node(1)
    first, second = Job("kubernetes", "ns/train", uid="u1"), Job("kubernetes", "ns/train", uid="u2")
    node.give(0.0, whole(first, "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(second, "0"))
    node.run(10.0, 15.0)
    assert node.job("ns/train").observed_seconds == pytest.approx(5.0)


def test_what_a_scheduler_learns_later_of_a_job_changes_no_total() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(replace(A, name="llama"), "0"))
    node.run(10.0, 20.0)
    assert node.job().job.name == "llama"
    assert node.job().observed_seconds == pytest.approx(20.0)


def test_the_time_before_the_agent_saw_a_job_is_held_and_not_observed() -> None:
    node = Node(1)
    node.tick(100.0)
    node.give(100.0, whole(replace(A, started=EPOCH + 40.0), "0"))
    node.run(100.0, 110.0)
    assert node.job().held_seconds == pytest.approx(70.0)
    assert node.job().observed_seconds == pytest.approx(10.0)


@pytest.mark.parametrize("started", [EPOCH + 500.0, 0.0, -1e12, math.nan, math.inf])
def test_a_start_that_cannot_be_is_not_believed(started: float) -> None:
    node = Node(1)
    node.give(10.0, whole(replace(A, started=started), "0"))
    node.run(10.0, 20.0)
    assert node.job().held_seconds == pytest.approx(10.0)


@pytest.mark.slow
def test_ten_thousand_jobs_leave_nothing_behind() -> None:
    node = Node(2)
    now = 0.0
    for number in range(10_000):
        now += 1.0
        node.give(now, whole(Job("slurm", str(number)), str(number % 2)))
        assert len(node.last.jobs) <= MOST_ENDED + 1
        assert len(node.state.owners.history[gpu(0).key]) <= 64
    node.give(now + 1.0)
    node.tick(now + 1.0 + GRACE_SECONDS)
    assert not node.state.jobs


def test_the_distribution_holds_every_observed_second() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0, tensor=0.2)
    node.run(10.0, 40.0, tensor=0.6)
    assert math.fsum(node.job().distribution.values()) == pytest.approx(40.0)
    assert node.job().distribution[round(0.6 * CLOCK / 0.005)] == pytest.approx(30.0)


def test_it_is_remembered_when_a_gpu_was_observed() -> None:
    """A window that two jobs share is of neither; what was not measured leaves a gap."""
    node = Node(2)
    node.give(0.0, whole(A, "0", "1"))
    node.run(0.0, 20.0, tensor=0.2)
    node.tick(30.0, fault(30.0))
    node.run(30.0, 60.0, tensor=0.6)
    usage = node.job().usage
    assert observed(usage, 0.0, 60.0).gpu_seconds == pytest.approx(2 * 50)
    assert observed(usage, 20.0, 30.0) == (0.0, 0.0, 0.0)
    assert observed(usage, 10.0, 40.0).utilization_seconds == pytest.approx(
        2 * (10 * 0.2 + 10 * 0.6) * CLOCK
    )
    assert observed(usage[:1], 35.0, 36.0) == pytest.approx((1.0, 0.6 * CLOCK, 0.0))
    assert observed(usage, 70.0, 80.0).gpu_seconds == 0.0


def test_the_error_of_a_stretch_is_that_of_its_windows() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    for start in (0.0, 5.0):
        clocks = [1300e6, 1500e6] * 5
        node.tick(start + 5.0, reading(start, start + 5.0, 0.5, clocks))
    error = node.last.gpus[0].window.stderr  # type: ignore[union-attr]
    assert error is not None
    assert error > 0
    whole_time = observed(node.job().usage, 0.0, 10.0)
    assert math.sqrt(whole_time.variance) / 10 == pytest.approx(error / math.sqrt(2))


@pytest.mark.slow
@pytest.mark.parametrize("window", [0.1, 1.0, 5.0, 30.0])
def test_it_is_remembered_for_so_long_and_no_longer(window: float) -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, RECENT_SECONDS + 200.0, window=window)
    (usage,) = node.job().usage
    assert len(usage.recent) < 1.1 * RECENT_SECONDS / GRAIN_SECONDS
    assert usage.recent[-1].end - usage.recent[0].start == pytest.approx(
        RECENT_SECONDS, abs=max(window, GRAIN_SECONDS)
    )
    seconds = observed([usage], 300.0, 800.0).gpu_seconds
    assert seconds == pytest.approx(500.0)


# A job that has GPUs and does not run yet.

POD = Job("kubernetes", "ns/1", started=EPOCH)


def waiting(job: Job, *devices: str) -> Claim:
    return Claim(job, devices, frozenset(devices))


def test_before_a_job_runs_it_holds_its_gpus_and_has_no_ofu() -> None:
    node = Node(1)
    node.give(0.0, waiting(POD, "0"))
    node.run(0.0, 840.0, tensor=0.0)
    view = node.job("ns/1")
    assert (view.held_seconds, view.waiting_seconds) == pytest.approx((840.0, 840.0))
    assert view.observed_seconds == 0.0
    assert not view.distribution
    assert node.last.gpus[0].observed_seconds == pytest.approx(840.0)
    node.give(840.0, whole(replace(POD, running_since=EPOCH + 840.0), "0"))
    node.run(840.0, 900.0, tensor=0.5)
    view = node.job("ns/1")
    assert view.utilization_seconds / view.observed_seconds == pytest.approx(0.5 * CLOCK)
    assert (view.held_seconds, view.observed_seconds) == pytest.approx((900.0, 60.0))
    assert view.waiting_seconds == pytest.approx(840.0)


def test_a_window_in_which_the_job_began_to_run_is_not_its_own() -> None:
    node = Node(1)
    node.give(0.0, waiting(POD, "0"))
    node.give(2.0, whole(POD, "0"))
    node.tick(5.0, reading(0.0, 5.0))
    node.tick(10.0, reading(5.0, 10.0))
    assert node.job("ns/1").observed_seconds == pytest.approx(5.0)


def test_each_gpu_waits_by_itself() -> None:
    node = Node(2)
    node.give(0.0, Claim(POD, ("0", "1"), frozenset({"1"})))
    node.run(0.0, 10.0)
    waited = {usage.index: usage.waiting_seconds for usage in node.job("ns/1").usage}
    observed = {usage.index: usage.observed_seconds for usage in node.job("ns/1").usage}
    assert waited == {"0": None, "1": pytest.approx(10.0)}
    assert observed == {"0": pytest.approx(10.0), "1": 0.0}


def test_of_the_time_before_the_agent_came_what_was_before_the_start_was_waited() -> None:
    node = Node(1)
    node.tick(1000.0)
    node.give(1000.0, whole(replace(POD, running_since=EPOCH + 840.0), "0"))
    node.run(1000.0, 1060.0)
    view = node.job("ns/1")
    assert view.held_seconds == pytest.approx(1060.0)
    assert view.waiting_seconds == pytest.approx(840.0)
    assert view.observed_seconds == pytest.approx(60.0)


@pytest.mark.parametrize("since", [EPOCH - 50.0, EPOCH + 5000.0, math.inf, -math.inf])
def test_a_start_that_cannot_be_makes_no_time(since: float) -> None:
    node = Node(1)
    node.tick(1000.0)
    node.give(1000.0, whole(replace(POD, running_since=since), "0"))
    node.run(1000.0, 1060.0)
    waited = node.job("ns/1").waiting_seconds
    assert waited is not None
    assert 0.0 <= waited <= 1000.0


def test_where_nobody_says_whether_a_job_runs_no_waiting_is_known() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    assert node.job().waiting_seconds is None


def test_a_job_that_waited_in_vain_has_no_ofu() -> None:
    node = Node(1)
    node.give(0.0, waiting(POD, "0"))
    node.run(0.0, 100.0)
    node.give(100.0)
    view = node.job("ns/1")
    assert view.ended is not None
    assert (view.waiting_seconds, view.observed_seconds) == pytest.approx((100.0, 0.0))
