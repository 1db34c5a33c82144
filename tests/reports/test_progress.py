"""How far runs have come, by what their reports say: the truth is what the test told."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.progress import LONGEST_EVENT_SECONDS, MOST_RUNS, Progress, Reached

DAY = 1_700_000_000.0


def report(**fields: Any) -> MfuReport:
    return MfuReport.model_validate({"job_id": "7", **fields})


def after(*reports: tuple[float, dict[str, Any]], run: str = "") -> Reached:
    progress = Progress()
    for at, fields in reports:
        progress = progress.plus(report(**fields), run, DAY + at)
    return progress.runs[run]


def event(
    kind: str, start: float, end: float, step: int | None = None
) -> tuple[float, dict[str, Any]]:
    body = {"event": kind, "start": DAY + start, "end": DAY + end}
    return end, body if step is None else {**body, "step": step}


def test_the_highest_step_and_when_it_was_stated_last() -> None:
    reached = after((10, {"step": 5}), (20, {"step": 9}), (30, {"step": 7}), (40, {"step": 9}))
    assert (reached.step, reached.at) == (9, DAY + 40)


def test_a_checkpoint_saves_its_step() -> None:
    reached = after((10, {"step": 50}), event("checkpoint", 10, 12, step=50), (20, {"step": 60}))
    assert (reached.step, reached.saved_step, reached.checkpoint_seconds) == (60, 50, 2.0)


def test_an_event_that_several_ranks_state_counts_once() -> None:
    reached = after(
        event("evaluation", 0, 60), event("evaluation", 0, 60), event("evaluation", 2, 61)
    )
    assert reached.evaluation_seconds == 61.0


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 30)), min_size=1, max_size=12))
def test_no_second_counts_twice_and_none_that_was_not_stated(spans: list[tuple[int, int]]) -> None:
    stated = {second for start, length in spans for second in range(start, start + length)}
    by_end = sorted(spans, key=sum)
    for order in (spans, by_end):
        reached = after(*(event("evaluation", at, at + length) for at, length in order))
        assert reached.evaluation_seconds <= len(stated)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=12))
def test_events_one_after_the_other_are_added(gaps: list[tuple[int, int]]) -> None:
    at, told = 0, []
    for gap, length in gaps:
        told.append(event("evaluation", at + gap, at + gap + length))
        at += gap + length
    assert after(*told).evaluation_seconds == sum(length for _, length in gaps)


def test_an_event_that_began_years_ago_is_a_wrong_clock() -> None:
    reached = after((0, {"event": "evaluation", "start": 1.0, "end": DAY}))
    assert reached.evaluation_seconds == LONGEST_EVENT_SECONDS


def test_of_too_many_runs_the_one_not_heard_of_for_longest_is_forgotten() -> None:
    progress = Progress()
    for n in range(3 * MOST_RUNS):
        progress = progress.plus(report(step=1000 + n), "live", DAY + n)
        progress = progress.plus(report(step=1), f"run{n}", DAY + n)
    assert len(progress.runs) == MOST_RUNS
    assert progress.runs["live"].step == 1000 + 3 * MOST_RUNS - 1


def test_what_two_entries_knew_of_one_run_is_kept() -> None:
    one = (
        Progress()
        .plus(report(step=100), "", DAY)
        .plus(report(**event("evaluation", 0, 9)[1]), "", DAY + 9)
    )
    other = Progress().plus(report(step=70, event="checkpoint", start=DAY), "", DAY + 3)
    for both in (one.merged(other), other.merged(one)):
        reached = both.runs[""]
        assert (reached.step, reached.saved_step) == (100, 70)
        assert (reached.evaluation_seconds, reached.checkpoint_seconds) == (9.0, 3.0)
