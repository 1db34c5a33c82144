"""The chain multiplies out, and what nobody counts is unknown, not 0."""

from __future__ import annotations

from math import prod

import pytest

from ofu_exporter.fleet.history.fleet_history import JobSums
from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.pages.chain_tables import progress_section
from ofu_exporter.fleet.reports.chain_before import with_changes
from ofu_exporter.fleet.reports.chain_rows import ChainStep, Factor
from ofu_exporter.fleet.reports.result import FleetReport
from tests.fleet.reports.test_fleet_report import history, job, of_two_users, report


def told(progress: ProgressSums) -> FleetReport:
    """A fleet of 400 GPU-hours, of which one job held 100."""
    one = job("1", "alice", JobSums(100.0, 100.0, 30.0))
    fleet = history(one)
    fleet.progress[one.key] = progress
    return report(fleet)


STEPS = {"starting": 4.0, "held_idle": 10.0, "alone": 6.0, "done_again": 20.0}


def test_of_jobs_that_tell_less_what_they_tell_is_added() -> None:
    """One states steps, one is watched alone, and of one nothing is known: it loses nothing."""
    jobs = [job(str(n), "alice", JobSums(100.0, 100.0, 30.0)) for n in range(3)]
    fleet = history(*jobs)
    fleet.progress[jobs[0].key] = ProgressSums(100.0, STEPS, 0.0, step=90.0, restarts=2.0)
    watched = {"starting": 1.0, "held_idle": 2.0, "alone": 3.0}
    fleet.progress[jobs[1].key] = ProgressSums(50.0, watched, 0.0)
    rows = report(fleet).progress
    named = [(each.by, each.cluster, each.name) for each in rows]
    of_jobs = [("job", "a", str(n)) for n in range(3)]
    assert named == [("all", "", ""), ("user", "", "alice"), ("account", "", "lab"), *of_jobs]
    row = rows[0]
    assert (row.held_gpu_hours, row.watched_ratio) == (300.0, 0.5)
    assert row.together_gpu_hours == pytest.approx(300 - 20 - 6)
    assert row.progress_gpu_hours == pytest.approx(300 - 20 - 6 - 20)
    assert (row.starting_gpu_hours, row.done_again_gpu_hours) == (5.0, 20.0)
    assert row.restarts == 2
    assert row.lost_cost == pytest.approx(2 * (40 + 6)), "an H100 costs 2 an hour"
    fleet.progress.clear()
    assert report(fleet).progress == []


def test_two_users_jobs_of_one_id_have_a_row_each() -> None:
    jobs = of_two_users()
    fleet = history(*jobs)
    for step, each in enumerate(jobs):
        fleet.progress[each.key] = ProgressSums(100.0, STEPS, step=step)
    rows = [row for row in report(fleet).progress if row.by == "job"]
    assert [(row.cluster, row.name, row.user, row.step) for row in rows] == [
        ("a", "7", "ada", 0.0),
        ("a", "7", "bob", 1.0),
    ]
    _, table, _ = progress_section(report(fleet).progress, "job", "EUR")
    assert [tuple(row[:2]) for row in table.rows] == [
        ("a/7", "ada"),
        ("a/7", "bob"),
        ("all jobs", ""),
    ]


def test_the_ratios_multiply_to_the_share_of_the_last_factor() -> None:
    steps = told(ProgressSums(100.0, STEPS, 0.0, step=90.0, restarts=2.0)).chain
    hours = {step.factor: step.gpu_hours for step in steps}
    assert hours == pytest.approx(
        {"capacity": 400, "allocated": 100, "together": 80, "progress": 60, "ofu": 22.5}
    )  # of the work of 30, a quarter was done in 20 of 80 hours
    assert {step.factor: step.cost for step in steps} == pytest.approx(
        {factor: 2 * (each or 0.0) for factor, each in hours.items()}
    )
    assert prod(step.ratio or 0.0 for step in steps) == pytest.approx(steps[-1].share)
    *_, last = told(ProgressSums(100.0, STEPS, 6.0, step=90.0, restarts=2.0)).chain
    assert last.gpu_hours == pytest.approx(18), "6 of it were done in what was lost otherwise"


@pytest.mark.parametrize(
    ("lost", "step", "is_known"),
    [({}, None, False), ({}, 3.0, True), ({"evaluation": 5.0}, None, True)],
)
def test_a_job_that_states_a_step_or_an_evaluation_says_what_was_progress(
    lost: dict[str, float], step: float | None, is_known: bool
) -> None:
    steps = told(ProgressSums(100.0, {"held_idle": 10.0, **lost}, step=step)).chain
    assert ("progress" in {each.factor for each in steps}) == is_known


@pytest.mark.parametrize(("seen", "is_told"), [(98.0, True), (99.5, False)])
def test_hours_without_a_watch_are_told_where_they_are_more_than_one_in_a_hundred(
    seen: float, is_told: bool
) -> None:
    notes = told(ProgressSums(seen, STEPS, 0.0, step=90.0)).notes
    assert any(f"{100 - seen:.1f}% of the held GPU-hours" in note for note in notes) == is_told


def test_it_is_said_once_why_the_chain_ends_where_it_does() -> None:
    unwatched, unstated = "at work at once is not known", "No job states its steps"
    none = report(history())
    for made, said in (
        (none, [False, False]),
        (told(ProgressSums()), [True, False]),
        (told(ProgressSums(100.0, {"held_idle": 10.0})), [False, True]),
        (told(ProgressSums(100.0, STEPS, step=3.0)), [False, False]),
    ):
        assert [any(why in note for note in made.notes) for why in (unwatched, unstated)] == said


def levels(*factors: Factor) -> list[ChainStep]:
    """Each at half of the one before."""
    return [
        ChainStep(factor=factor, share=0.5**at, ratio=0.5, gpu_hours=None, cost=None)
        for at, factor in enumerate(factors)
    ]


def test_a_factor_is_held_against_the_period_before_up_to_where_both_chains_are_alike() -> None:
    now = levels("capacity", "allocated", "together", "ofu")
    for before, alike in (
        ([], 0),
        (levels("capacity", "allocated"), 2),
        (levels("capacity", "allocated", "ofu", "ofu"), 2),
        (now, 4),
    ):
        steps = with_changes(now, before)
        shares = [each.share for each in now][:alike] + [None] * (4 - alike)
        assert [each.share_before for each in steps] == shares
        assert [each.ratio_before for each in steps] == [0.5] * alike + [None] * (4 - alike)
