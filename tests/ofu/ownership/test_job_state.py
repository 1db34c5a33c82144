"""The totals of a job, tick by tick: what it held, what was observed, and its OFU."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.jobs.totals import JobTotals, resumed_job, totals_of
from ofu_exporter.ofu.observed import FINE_SECONDS, GRAIN_SECONDS, RECENT_SECONDS, observed
from ofu_exporter.ofu.ownership.job_state import (
    GRACE_SECONDS,
    MOST_ENDED,
    MOST_RUNS,
    JobState,
    credit,
)
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.peak_split import split
from ofu_exporter.ofu.tick import State
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, Job, JobKey
from ofu_exporter.values.reading import ActivitySample, Window
from ofu_exporter.values.reported import NOTHING_COMPARED, Compared
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
    assert [usage.key for usage in view.usage.values()] == [gpu(0).key]


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
    seconds = {usage.index: usage.observed_seconds for usage in node.job().usage.values()}
    assert seconds == {"0": pytest.approx(20.0), "1": pytest.approx(20.0)}


def test_a_job_that_ended_is_shown_for_a_while_and_then_leaves() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.give(10.0)
    assert node.job().ended == EPOCH + 10.0
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
    node.run(70.0, 80.0 + GRACE_SECONDS)
    assert node.job().ended is None


def test_a_run_on_another_gpu_has_that_one_gpu() -> None:
    node = Node(2)
    first, second = replace(A, uid="1"), replace(A, uid="2", started=EPOCH + 30)
    node.give(0.0, whole(first, "0"))
    node.run(0.0, 20.0)
    node.give(20.0)
    node.give(30.0, whole(second, "1"))
    assert node.job().gpu_count == 1.0, "also before the second run has held it for a moment"
    node.run(30.0, 40.0)
    assert node.job().gpu_count == 1.0
    assert node.job().held_seconds == pytest.approx(30.0), "of both runs"
    totals = totals_of(node.job(), "n1", simulated=False)
    assert (totals.gpu_count, len(totals.gpus)) == (1.0, 2)
    assert resumed_job(totals, Instant(40.0, EPOCH + 40)).gpu_count == 1.0
    node.give(40.0, whole(second, "0", "1"))
    node.run(40.0, 50.0)
    assert node.job().gpu_count == 2.0, "it has grown"


def test_a_job_is_shown_with_when_it_was_seen_first_and_last() -> None:
    node = Node(1)
    node.give(10.0, whole(A, "0"))
    node.run(10.0, 30.0)
    assert (node.job().began, node.job().updated) == (EPOCH + 10, EPOCH + 30)
    node.give(40.0)
    node.tick(60.0)
    assert (node.job().ended, node.job().updated) == (EPOCH + 40, EPOCH + 40)


def test_a_job_that_began_before_the_agent_has_its_part_of_a_gpu_that_it_shares() -> None:
    """How the GPU was shared before anybody looked is not known: as it is shared now."""
    node = Node(1)
    first, second = (replace(each, started=EPOCH - 100) for each in (A, B))
    node.give(0.0, Claim(first, ("GPU-0000::0",)), Claim(second, ("GPU-0000::1",)))
    assert [view.job for view in node.last.jobs] == [first, second]
    node.give(10.0, Claim(first, ("GPU-0000::0",)))
    node.tick(20.0)
    assert node.job().held_seconds == pytest.approx(110.0 / 2 + 10.0)
    assert node.job().shared_seconds == pytest.approx(110.0 / 2)


def test_of_too_many_jobs_that_ended_the_newest_are_shown() -> None:
    node = Node(1)
    for number in range(MOST_ENDED + 10):
        node.give(number / 10, whole(Job("slurm", f"{1000 - number}"), "0"))
    node.give(50.0)
    shown = {int(view.job.job_id) for view in node.last.jobs}
    assert shown == {1000 - number for number in range(10, MOST_ENDED + 10)}


def test_another_run_of_a_job_goes_on_and_has_totals_of_its_own() -> None:
    node = Node(2)
    node.give(0.0, whole(replace(A, uid="r1"), "0"))
    node.run(0.0, 10.0, tensor=0.2)
    node.give(10.0)
    node.give(40.0, whole(replace(A, uid="r2"), "1"))
    node.run(40.0, 45.0, tensor=0.6)
    view = node.job()
    assert view.observed_seconds == pytest.approx(15.0)
    assert view.utilization_seconds == pytest.approx((10 * 0.2 + 5 * 0.6) * CLOCK)
    assert (view.job.uid, view.began) == ("r2", EPOCH)
    first, second = view.runs
    assert first[:3] == ("r1", EPOCH, EPOCH + 10)
    assert first[3:6] == pytest.approx((10.0, 10.0, 10 * 0.2 * CLOCK))
    assert second[:3] == ("r2", EPOCH + 40, None)
    assert second[3:6] == pytest.approx((5.0, 5.0, 5 * 0.6 * CLOCK))


def test_a_run_that_follows_at_once_takes_no_time_of_the_one_before() -> None:
    """Its scheduler may say that it started when the job did."""
    node = Node(1)
    node.give(0.0, whole(replace(A, uid="r1", started=EPOCH), "0"))
    node.run(0.0, 10.0)
    node.give(10.0, whole(replace(A, uid="r2", started=EPOCH), "0"))
    node.run(10.0, 20.0)
    assert [run.held_seconds for run in node.job().runs] == pytest.approx([10.0, 10.0])


def test_a_job_that_is_requeued_for_ever_costs_no_more_than_so_many_runs() -> None:
    node = Node(1)
    for number in range(3 * MOST_RUNS):
        node.give(number, whole(replace(A, uid=f"r{number}"), "0"))
        node.run(number, number + 1, window=1.0)
    view = node.job()
    assert len(view.runs) == MOST_RUNS
    assert view.runs[0].began == EPOCH
    assert math.fsum(run.observed_seconds for run in view.runs) == pytest.approx(
        view.observed_seconds
    )
    assert view.observed_seconds == pytest.approx(3 * MOST_RUNS)


class Change(NamedTuple):
    """What happens to a job before a window."""

    seconds: float
    uid: str
    """Of the run that holds the GPUs; "" = none does."""
    devices: tuple[str, ...]
    restarts: bool
    """Whether the agent starts anew, with what its state file has."""


CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from([1.0, 5.0, 20.0]),
        st.sampled_from(["", "r1", "r2", "r3"]),
        st.sampled_from([("0",), ("1",), ("0", "1")]),
        st.booleans(),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(CHANGES)
def test_no_counter_of_a_job_goes_back_before_its_series_has_ended(changes: list[Change]) -> None:
    """Whatever its runs, and however often the agent starts anew. The job is never away for GRACE_SECONDS."""
    node, now, expected, before = Node(2), 0.0, 0.0, (0.0, 0.0, 0.0)
    file: dict[JobKey, str] = {}
    for change in changes:
        if change.restarts:
            restart(node, now, file)
        node.give(now, *([whole(replace(A, uid=change.uid), *change.devices)] * bool(change.uid)))
        node.run(now, now + change.seconds)
        now += change.seconds
        expected += change.seconds * len(change.devices) * bool(change.uid)
        for view in node.last.jobs:
            totals = (view.held_seconds, view.observed_seconds, view.utilization_seconds)
            assert all(one >= last - 1e-9 for one, last in zip(totals, before, strict=True))
            assert view.observed_seconds == pytest.approx(expected)
            own = zip(*(run[3:6] for run in view.runs), strict=True)
            assert [math.fsum(each) for each in own] == pytest.approx(totals)
            before = totals


def restart(node: Node, now: float, file: dict[JobKey, str]) -> None:
    """Another agent goes on with what a state file has of the jobs."""
    for view in node.last.jobs:
        file[view.job.key] = totals_of(view, "n1", simulated=False).model_dump_json()
    saved = [JobTotals.model_validate_json(row) for row in file.values()]
    states = [resumed_job(each, Instant(now, EPOCH + now)) for each in saved]
    node.state = State(owners=OwnerState(jobs={state.job.key: state for state in states}))
    node.tick(now)


def test_a_job_that_comes_back_when_its_series_has_ended_begins_anew() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 10.0)
    node.give(10.0)
    node.tick(10.0 + GRACE_SECONDS)
    node.give(400.0, whole(replace(A, uid="r2"), "0"))
    node.run(400.0, 405.0)
    assert node.job().observed_seconds == pytest.approx(5.0)
    assert [run.began for run in node.job().runs] == [EPOCH + 400]


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


def test_a_job_is_held_since_the_first_of_its_gpus_was() -> None:
    node = Node(2)
    node.give(10.0, whole(replace(A, started=EPOCH + 4.0), "0"))
    node.run(10.0, 20.0)
    node.give(20.0, whole(replace(A, started=EPOCH + 4.0), "0", "1"))
    node.run(20.0, 30.0)
    assert node.job().held_since == EPOCH + 4.0


def test_half_a_second_before_the_agent_saw_a_job_is_held_too() -> None:
    node = Node(1)
    node.give(10.0, whole(replace(A, started=EPOCH + 9.5), "0"))
    node.run(10.0, 20.0)
    assert node.job().held_seconds == pytest.approx(10.5)


@pytest.mark.parametrize("started", [EPOCH + 500.0, 0.0, -1e12, math.nan, math.inf])
def test_a_start_that_cannot_be_is_not_believed(started: float) -> None:
    node = Node(1)
    node.give(10.0, whole(replace(A, started=started), "0"))
    node.run(10.0, 20.0)
    assert node.job().held_seconds == pytest.approx(10.0)


@pytest.mark.slow
def test_a_thousand_jobs_leave_nothing_behind() -> None:
    node = Node(2)
    now = 0.0
    for number in range(4 * MOST_ENDED):
        now += 1.0
        node.give(now, whole(Job("slurm", str(number)), str(number % 2)))
        assert len(node.last.jobs) <= MOST_ENDED + 1
        assert len(node.state.owners.history[gpu(0).key]) <= 64
    node.give(now + 1.0)
    node.tick(now + 1.0 + GRACE_SECONDS)
    assert not node.state.owners.jobs


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
    usage = [*node.job().usage.values()]
    assert observed(usage, 0.0, 60.0).gpu_seconds == pytest.approx(2 * 50)
    assert observed(usage, 20.0, 30.0) == NOTHING_COMPARED
    assert observed(usage, 10.0, 40.0).utilization_seconds == pytest.approx(
        2 * (10 * 0.2 + 10 * 0.6) * CLOCK
    )
    assert observed(usage[:1], 35.0, 36.0)[1:4] == pytest.approx((0.6 * CLOCK, 1.0, 0.0), abs=1e-3)
    assert observed(usage, 70.0, 80.0).gpu_seconds == 0.0


@pytest.mark.parametrize("window", [1.0, 5.0])
def test_the_error_of_a_stretch_is_that_of_its_windows(window: float) -> None:
    """Half a window has half of its seconds, and of its error."""
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    count = int(10.0 / window)
    utilization, errors = 0.0, []
    for number in range(count):
        start = number * window
        node.tick(start + window, reading(start, start + window, 0.5, [1300e6, 1500e6] * 5))
        last = node.state.gpus[gpu(0).key].recent[-1]
        assert last.utilization is not None
        assert last.stderr is not None
        utilization = last.utilization
        errors.append(last.stderr)
    assert min(errors) > 0
    whole_time = observed(node.job().usage.values(), 0.0, 10.0)
    assert whole_time.utilization_seconds == pytest.approx(10.0 * utilization)
    assert math.sqrt(whole_time.variance) == pytest.approx(window * math.hypot(*errors))
    first, half = (observed(node.job().usage.values(), 0.0, end) for end in (5.0, 2.5))
    squares = [(window * error) ** 2 for error in errors]
    variance = {1.0: math.fsum(squares[:2]) + squares[2 % count] / 4, 5.0: squares[0] / 4}[window]
    assert half[1:4] == pytest.approx((first.utilization_seconds / 2, 2.5, variance))
    unsaid = half._replace(edge_seconds=0.0, overstated_seconds=0.0)
    assert unsaid[4:] == NOTHING_COMPARED[4:], "its end alone is cut"


def test_a_window_is_remembered_in_its_parts() -> None:
    """The end of what is asked for cuts one part, not the window."""
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    shape = tuple(ActivitySample(at, at + 1.0, 0.6 if at < 3 else 0.0, {}) for at in range(5))
    node.tick(5.0, replace(reading(0.0, 5.0, 0.36), shape=shape))
    (usage,) = node.job().usage.values()
    assert [span.end for span in usage.recent] == [1.0, 2.0, 3.0, 4.0, 5.0]
    all_of_it, work = observed([usage], 0.0, 5.0), observed([usage], 0.0, 3.5, (True, False))
    assert all_of_it[1:3] == pytest.approx((5 * 0.36 * CLOCK, 5.0))
    assert work.utilization_seconds == pytest.approx(3 * 0.6 * CLOCK)
    last = node.state.gpus[gpu(0).key].recent[-1]
    assert last.stderr is not None
    assert all_of_it.variance == pytest.approx((5 * last.stderr) ** 2)


def test_after_a_long_pause_nothing_of_before_is_remembered() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 20.0)
    node.run(20.0 + RECENT_SECONDS, 30.0 + RECENT_SECONDS)
    (usage,) = node.job().usage.values()
    assert usage.recent[0].start == 20.0 + RECENT_SECONDS
    assert usage.observed_seconds == pytest.approx(30.0)


def test_a_window_of_a_gpu_that_a_job_had_for_no_time_is_its_all_the_same() -> None:
    window, _ = split(Window(0.0, 5.0, 0.5, {}, 1400e6, 0.4), None)
    known = credit(JobState(A, EPOCH), gpu(3), window)
    (usage,) = known.usage.values()
    assert (usage.index, usage.key) == ("3", gpu(3).key)
    assert (usage.held_seconds, usage.observed_seconds) == (0.0, 5.0)
    assert credit(known, gpu(3), window._replace(utilization=None)) == known


@pytest.mark.slow
@pytest.mark.parametrize("window", [0.25, 0.5, 5.0, 30.0])
def test_it_is_remembered_for_so_long_and_no_longer(window: float) -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, RECENT_SECONDS + 200.0, window=window)
    (usage,) = node.job().usage.values()
    fine = FINE_SECONDS / max(window, 0.5)
    assert len(usage.recent) < 1.1 * RECENT_SECONDS / GRAIN_SECONDS + fine
    assert usage.recent[-1].end - usage.recent[0].start == pytest.approx(
        RECENT_SECONDS, abs=max(window, GRAIN_SECONDS)
    )
    seconds = observed([usage], 300.0, 800.0).gpu_seconds
    assert seconds == pytest.approx(500.0)


def test_a_window_with_one_clock_read_adds_to_no_variance() -> None:
    """Its error is not known; what is known of its clock is remembered."""
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 60.0, window=30.0, hz=(1400e6,))
    node.run(60.0, 65.0, hz=(1380e6, 1420e6))
    sums = observed(node.job().usage.values(), 0.0, 65.0)
    too_high = 0.13 / 1.13 * sums.utilization_seconds
    assert sums[4:] == pytest.approx(
        (60.0, 60 * 0.5 * CLOCK, 2.0, 2 * 1400e6, 2 * 1400e6**2, 0.0, too_high)
    )
    assert sums.variance > 0
    half = observed(node.job().usage.values(), 0.0, 15.0)
    known = (15.0, 15 * 0.5 * CLOCK, 0.5, 0.5 * 1400e6, 0.5 * 1400e6**2)
    assert half[4:9] == pytest.approx(known)
    assert half.variance == 0


def test_an_ofu_of_0_is_exact_with_one_clock_read() -> None:
    node = Node(1)
    node.give(0.0, whole(A, "0"))
    node.run(0.0, 60.0, tensor=0.0, window=30.0, hz=(1400e6,))
    assert observed(node.job().usage.values(), 0.0, 60.0) == Compared(gpu_seconds=60.0)


# A job that has GPUs and does not run yet.

POD = Job("kubernetes", "ns/1", started=EPOCH)


def waiting(job: Job, *devices: str) -> Claim:
    return Claim(job, devices, waiting=frozenset(devices))


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
    node.give(0.0, Claim(POD, ("0", "1"), waiting=frozenset({"1"})))
    node.run(0.0, 10.0)
    waited = {usage.index: usage.waiting_seconds for usage in node.job("ns/1").usage.values()}
    observed = {usage.index: usage.observed_seconds for usage in node.job("ns/1").usage.values()}
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
