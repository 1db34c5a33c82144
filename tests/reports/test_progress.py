"""What reports say of steps and events: the truth is what the test told."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.progress import (
    LONGEST_SECONDS,
    Countable,
    after_report,
    restarted,
    restarted_anew,
    working_since,
)
from ofu_exporter.values.progress import MOST_RUN_LINES, MOST_SPANS, Progress, RunLine

DAY = 1_700_000_000.0
GPUS = 4.0


def report(**fields: Any) -> MfuReport:
    return MfuReport.model_validate({"job_id": "7", **fields})


class Told:
    """A job that began at `DAY` and reports; times are seconds since then."""

    def __init__(self, run: str = "", line: RunLine | None = None) -> None:
        self.progress = Progress()
        self.run, self.line = run, line
        self.since = 0.0

    def step(self, step: int, end: float, start: float | None = None) -> Told:
        began = {} if start is None else {"start": DAY + start}
        return self._take(end, step=step, **began)

    def event(self, kind: str, start: float, end: float, step: int | None = None) -> Told:
        stated = {} if step is None else {"step": step}
        return self._take(end, event=kind, start=DAY + start, **stated)

    def _take(self, end: float, **fields: Any) -> Told:
        countable = Countable(DAY + self.since, DAY + end, GPUS)
        self.progress = after_report(
            self.progress, report(**fields), self.run, countable, self.line if self.run else None
        )
        return self

    def requeued(self, at: float) -> Told:
        self.progress, self.since = restarted(self.progress), at
        return self

    @property
    def done_again(self) -> float:
        return (self.progress.done_again_seconds or 0.0) / GPUS


def test_a_run_without_a_restart_does_nothing_again() -> None:
    job = Told().step(1, 10).step(2, 20).step(2, 30).step(50, 40)
    assert (job.progress.highest_step, job.done_again, job.progress.restarts) == (50, 0.0, 0)
    assert job.progress.recoveries == ()


def test_a_report_without_a_step_or_an_event_tells_of_no_progress() -> None:
    countable = Countable(DAY, DAY + 10, GPUS)
    assert after_report(Progress(), report(mfu=0.4), "a", countable) == Progress()


def test_steps_up_to_the_highest_before_a_requeue_are_done_again() -> None:
    """Steps of 1 s; the run dies after step 150, and goes on from a checkpoint at 100."""
    job = Told()
    for step in range(10, 160, 10):
        job.step(step, step, step - 10)
    job.requeued(200.0)
    for step in range(110, 200, 10):
        job.step(step, 140.0 + step, 130.0 + step)
    assert job.done_again == pytest.approx(50.0)
    (recovery,) = job.progress.recoveries
    assert (recovery.resumed_step, recovery.highest_step) == (110, 150)
    assert (recovery.at, recovery.recovered) == (DAY + 150, DAY + 140 + 160)
    assert job.progress.again == ((DAY + 240, DAY + 290),)


def test_of_a_report_over_old_and_new_steps_the_old_ones_share_counts() -> None:
    job = Told().step(15, 15).requeued(20).step(10, 30, 20).step(20, 40, 30)
    assert job.done_again == pytest.approx(10.0 + 5.0)


def test_a_restart_inside_the_run_is_told_by_two_steps() -> None:
    job = Told().step(99, 99).step(100, 100).step(51, 131, 130).step(52, 132, 131)
    assert job.progress.restarts == 1
    assert job.done_again == pytest.approx(2.0)
    at_one_instant = Told().step(99, 99).step(100, 100).step(51, 131).step(52, 131)
    assert at_one_instant.progress.restarts == 0, "their order is not known"
    job.step(100, 180, 132).step(101, 181, 180)
    assert job.done_again == pytest.approx(50.0)
    assert job.progress.recoveries[0].recovered == DAY + 181


def test_the_time_of_a_failure_inside_a_run_is_not_of_a_step() -> None:
    job = Told().step(100, 100).step(51, 131).step(52, 132)
    assert job.done_again == pytest.approx(1.0)


def test_two_programs_of_one_job_do_nothing_again() -> None:
    job = Told()
    for second in range(50):
        job.step(100 + second, 2.0 * second).step(5 + second, 2.0 * second + 1)
    assert (job.progress.restarts, job.done_again) == (0, 0.0)


@pytest.mark.parametrize("often", [1, 3, 6])
def test_two_programs_that_report_unequally_often_do_nothing_again(often: int) -> None:
    job = Told()
    for minute in range(30):
        job.step(1000 + minute, 60.0 * minute)
        for each in range(often):
            job.step(1 + often * minute + each, 60.0 * minute + 50.0 * (each + 1) / often)
    assert (job.progress.restarts, job.done_again, job.progress.recoveries) == (0, 0.0, ())


def test_a_quick_restart_is_told_once_no_higher_step_comes() -> None:
    job = Told()
    for second in range(0, 110, 10):
        job.step(second, second)
    for second in (102, 112, 122, 132):
        job.step(second - 92, second, max(101, second - 10))
    assert job.progress.restarts == 1
    assert job.done_again == pytest.approx(31.0)
    assert job.progress.recoveries[0].resumed_step == 10


def test_an_evaluation_of_a_step_beyond_the_last_report_of_steps_is_of_that_step() -> None:
    """Steps of 0.3 s are reported every 10 s, so the last one that was told is up to 33 behind."""
    told = Told().step(150, 100).requeued(200).step(140, 210, 200)
    job = told.event("evaluation", 213, 243, step=151)
    assert (job.progress.evaluation_seconds, job.done_again) == (30.0 * GPUS, 10.0)
    job.event("checkpoint", 243, 253, step=100)
    assert job.done_again == 20.0, "one of an earlier step, which the job waited for now"


def test_an_evaluation_among_steps_of_a_restart_counts_once() -> None:
    job = Told().step(99, 90).step(100, 100).step(50, 108, 106).event("evaluation", 108, 111)
    job.step(51, 112).step(52, 113)
    assert job.progress.restarts == 1
    assert job.done_again + (job.progress.evaluation_seconds or 0.0) / GPUS <= 113 - 106


@pytest.mark.parametrize("is_requeued", [False, True])
def test_a_first_step_that_was_far_too_high_is_forgotten(is_requeued: bool) -> None:
    job = Told()
    if is_requeued:
        job.step(99, -20).step(100, -10).requeued(0)
    job.step(10**12, 10).step(60, 20).step(70, 30).step(120, 40)
    assert (job.progress.highest_step, job.progress.restarts) == (120, 0)
    assert job.progress.highest_before == (100 if is_requeued else None)
    if is_requeued:
        (recovery,) = job.progress.recoveries
        assert (recovery.resumed_step, recovery.recovered) == (60, DAY + 40)


def test_a_step_that_was_far_too_high_by_mistake_is_forgotten() -> None:
    job = Told().step(100, 100).step(110, 110).step(10**12, 120).step(130, 130).step(140, 140)
    assert (job.progress.restarts, job.done_again, job.progress.highest_step) == (0, 0.0, 140)
    job.step(150, 150).step(120, 170, 160).step(130, 180, 170).step(160, 210, 180)
    assert job.progress.restarts == 1, "the next restart is told as ever"
    assert job.done_again == pytest.approx(10.0 + 10.0 + 20.0)


def test_a_mistaken_step_after_a_restart_leaves_the_highest_before_it() -> None:
    job = Told().step(90, 90).step(100, 100).requeued(110).step(60, 120, 110).step(10**9, 130, 120)
    job.step(70, 140, 130).step(80, 150, 140)
    assert job.progress.highest_step == 100
    assert job.progress.restarts == 0


def test_a_program_that_rests_while_another_states_lower_steps_is_one_restart_at_most() -> None:
    """As a trainer that waits for a program whose own steps come under the same run."""
    job = Told()
    for second in range(400):
        if second % 100 < 40:
            job.step(10_000 + second, second)
        if second % 2:
            job.step(5 + second // 2, second + 0.5)
    assert job.progress.restarts == 1
    assert job.progress.highest_step == 10_339
    assert job.done_again <= 60


def test_a_run_that_was_started_again_catches_up_between_two_reports_as_ever() -> None:
    job = Told().step(5000, 100).step(5001, 101).step(4000, 131, 130).step(4001, 132)
    job.step(5600, 1732, 132).step(5601, 1733)
    assert (job.progress.restarts, job.progress.are_several) == (1, False)
    assert job.done_again == pytest.approx(2 + 1600 * 1000 / 1599)


@pytest.mark.parametrize(("highest", "restarts"), [(310, 1), (311, 0)])
def test_a_step_more_than_a_hundred_times_too_far_is_a_mistake(highest: int, restarts: int) -> None:
    """Two steps lie between the reports beside it."""
    job = Told().step(100, 100).step(110, 110).step(highest, 120)
    assert job.step(111, 130).step(112, 140).progress.restarts == restarts


def test_a_restart_between_the_last_two_reports_is_no_mistake() -> None:
    job = Told().step(100, 100).step(110, 110).step(120, 120).step(112, 142, 140).step(120, 150)
    assert job.progress.restarts == 1


def test_a_first_step_near_the_highest_before_a_restart_is_no_mistake() -> None:
    job = Told().step(4900, 10).requeued(20).step(5000, 30).step(40, 40, 39).step(41, 41, 40)
    assert job.progress.restarts == 1


def test_a_report_that_was_late_is_no_restart() -> None:
    job = Told().step(10, 10).step(12, 12).step(11, 11).step(13, 13)
    assert (job.progress.restarts, job.done_again) == (0, 0.0)


def test_a_run_that_continues_another_job_goes_on_from_its_highest_step() -> None:
    job = Told("llama", RunLine(150, DAY - 500)).step(110, 20, 10).step(160, 70, 20)
    assert job.done_again == pytest.approx(10.0 + 40.0)
    assert job.progress.recoveries[0].at == DAY - 500
    job = Told("llama", RunLine(150, DAY - 500)).event("restart", 5, 6).requeued(8).step(110, 20)
    assert job.progress.recoveries[0].at == DAY - 500, "it has told no step before it was requeued"


def test_a_run_says_itself_how_far_earlier_ones_came_on_other_nodes() -> None:
    job = Told()
    job._take(20.0, step=110, start=DAY + 10, reached=150, reached_at=DAY - 500)
    job._take(70.0, step=160, start=DAY + 20, reached=150, reached_at=DAY - 500)
    assert job.done_again == pytest.approx(10.0 + 40.0)
    (recovery,) = job.progress.recoveries
    assert (recovery.resumed_step, recovery.highest_step, recovery.recovered) == (
        110,
        150,
        DAY + 70,
    )
    assert recovery.at == DAY - 500
    job._take(80.0, step=170, reached=1000)
    assert job.progress.highest_step == 170, "it had stated steps before"


def test_of_a_node_whose_clock_was_not_set_no_time_counts() -> None:
    """Its recovery would have taken 56 years."""
    job = Told()._take(20.0, step=110, start=DAY + 10, reached=150, reached_at=7.0)
    (recovery,) = job.progress.recoveries
    assert recovery.at == pytest.approx(DAY, abs=60)


def test_what_other_nodes_reach_in_the_same_run_is_not_done_again() -> None:
    job = Told()._take(10.0, step=5, start=DAY + 1, reached=5, reached_at=DAY + 9)
    assert (job.done_again, job.progress.recoveries, job.progress.highest_before) == (0, (), None)
    tomorrow = Told()._take(
        10.0, step=5, start=DAY + 1, reached=(1 << 53) - 1, reached_at=DAY + 86_400
    )
    assert (tomorrow.done_again, tomorrow.progress.highest_step) == (0, 5)


def test_another_run_id_is_a_new_line() -> None:
    job = Told("one").step(100, 100)
    job.run = "two"
    job.step(1, 110).step(2, 120)
    assert (job.progress.highest_step, job.done_again, job.progress.restarts) == (2, 0.0, 0)
    job.run = "one"
    assert job.step(90, 130, 120).done_again == pytest.approx(10.0)


def test_the_first_report_of_a_run_counts_from_when_it_began_to_work() -> None:
    assert Told().step(100, 100).requeued(150).step(90, 170).done_again == pytest.approx(20.0)


def test_events_count_and_their_time_is_not_that_of_steps() -> None:
    job = Told().step(10, 10).event("evaluation", 10, 25, 10).event("checkpoint", 25, 27, 10)
    job.step(20, 37)
    assert job.progress.evaluation_seconds == pytest.approx(15 * GPUS)
    assert job.progress.checkpoint_seconds == pytest.approx(2 * GPUS)
    assert job.progress.line == RunLine(20, DAY + 37, 10)


def test_an_evaluation_between_steps_that_are_done_again_is_done_again() -> None:
    job = Told().step(100, 100).requeued(110).step(50, 120, 110).event("evaluation", 120, 130)
    assert job.done_again == pytest.approx(20.0)
    assert job.progress.evaluation_seconds == 0.0


def test_an_event_that_several_ranks_state_counts_once() -> None:
    job = Told().event("evaluation", 0, 60).event("evaluation", 0, 60).event("evaluation", 2, 61)
    assert job.progress.evaluation_seconds == pytest.approx(61 * GPUS)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 30)), min_size=1, max_size=12))
def test_no_second_counts_twice_and_none_that_was_not_stated(spans: list[tuple[int, int]]) -> None:
    stated = {second for start, length in spans for second in range(start, start + length)}
    for order in (spans, sorted(spans, key=sum)):
        job = Told()
        for at, length in order:
            job.event("evaluation", at, at + length)
        assert (job.progress.evaluation_seconds or 0.0) <= len(stated) * GPUS


_REPORTS = st.tuples(
    st.sampled_from(["step", "event", "requeued"]),
    st.integers(0, 40),
    st.floats(0, 3000),
    st.none() | st.floats(0, 3000),
)


@given(st.lists(_REPORTS, max_size=40))
def test_whatever_is_stated_no_more_time_counts_than_has_passed(told: list[Any]) -> None:
    job, last = Told(), 0.0
    for kind, step, end, start in told:
        last = max(last, end)
        if kind == "requeued":
            job.requeued(last)
        elif kind == "step":
            job.step(step, end, None if start is None else min(start, end))
        elif start is not None and start < end:
            job.event("checkpoint", start, end, step)
    now = job.progress
    sums = [now.done_again_seconds, now.evaluation_seconds, now.checkpoint_seconds]
    assert math.fsum(each or 0.0 for each in sums) <= last * GPUS * (1 + 1e-6)


def test_however_many_events_a_start_has_their_time_counts_once_it_is_over() -> None:
    progress = Progress()
    for n in range(3 * MOST_SPANS):
        event = report(
            event="checkpoint" if n % 9 else "evaluation", start=DAY + n, end=DAY + n + 1
        )
        progress = after_report(progress, event, "", Countable(DAY, DAY + n + 1, GPUS, True))
    assert len(progress.unsure) == MOST_SPANS
    assert progress.is_possible
    after = working_since(progress, DAY)
    assert (after.evaluation_seconds, after.checkpoint_seconds) == (11 * GPUS, 85 * GPUS)
    later = working_since(progress, DAY + 3 * MOST_SPANS - 10)
    assert 0 < (later.checkpoint_seconds or 0.0) < 20 * GPUS, "what were many is cut as one"


def test_an_event_that_began_years_ago_is_a_wrong_clock() -> None:
    job = Told()
    job.since = -DAY
    assert job.event("evaluation", 1.0 - DAY, 0).progress.evaluation_seconds == pytest.approx(
        LONGEST_SECONDS * GPUS
    )


@pytest.mark.slow
def test_of_too_many_runs_the_one_not_heard_of_for_longest_is_forgotten() -> None:
    job = Told()
    for n in range(10_000):
        for job.run, step in (("live", 1000 + n), (f"run{n}", 1)):
            job.step(step, n)
    assert len(job.progress.lines) == MOST_RUN_LINES
    assert job.progress.lines["live"].step == 1000 + 9_999
    assert job.done_again == 0.0


def test_a_restart_that_the_job_tells_counts_once_and_steps_go_on_below() -> None:
    """Two nodes tell of it, and so do the steps; the failure was at 95 s."""
    job = Told().step(80, 80).step(90, 90).event("restart", 95, 120).event("restart", 96, 121)
    job.step(60, 131, 121).step(70, 141).event("restart", 95, 142).step(100, 171, 141)
    assert job.progress.restarts == 1
    assert job.done_again == pytest.approx(10 + 10 + 20)
    (recovery,) = job.progress.recoveries
    assert (recovery.at, recovery.resumed, recovery.recovered) == (DAY + 95, DAY + 131, DAY + 171)


def test_a_restart_that_steps_have_told_is_not_told_again() -> None:
    job = Told().step(90, 90).step(100, 100).step(50, 150, 140).step(51, 152)
    assert job.event("restart", 105, 139).progress.restarts == 1
    by_two_clocks = Told().step(80, 80).step(90, 90).event("restart", 89.5, 120)
    assert by_two_clocks.progress.restarts == 1


@pytest.mark.parametrize(("later", "restarts"), [(59.9, 0), (60.1, 1)])
def test_a_requeue_within_a_minute_of_a_restart_that_steps_told_is_that_restart(
    later: float, restarts: int
) -> None:
    told = Told().step(90, 90).step(100, 100).event("restart", 105, 139).progress
    assert (told.restarts, told.told) == (1, DAY + 139)
    assert restarted_anew(told, DAY + 139 + later).restarts == restarts


def test_a_long_pause_between_steps_hides_later_restarts_for_a_while_only() -> None:
    job = Told().step(1, 10)
    for step in range(2, 40):
        job.step(step, 1000.0 + 10 * step)
    assert job.step(5, 1410, 1400).step(6, 1420, 1410).progress.restarts == 1


def test_the_highest_step_that_was_saved_stays_whatever_is_told_late() -> None:
    job = Told().step(30, 30).event("checkpoint", 31, 32, 30).event("checkpoint", 33, 34, 20)
    assert job.progress.lines[""].saved_step == 30
