"""The chain multiplies out, and what nobody counts is unknown, not 0."""

from __future__ import annotations

from math import prod

import pytest

from ofu_exporter.fleet.reports.chain_rows import ProgressRow
from ofu_exporter.fleet.reports.fleet_history import JobSums
from ofu_exporter.fleet.reports.progress_sums import ProgressSums
from ofu_exporter.fleet.reports.report_text import sections
from ofu_exporter.fleet.reports.result import FleetReport
from tests.fleet.reports.test_fleet_report import history, job, report


def told(progress: ProgressSums) -> FleetReport:
    """A fleet of 400 GPU-hours, of which one job held 100."""
    one = job("1", "alice", JobSums(100.0, 100.0, 30.0))
    fleet = history(one)
    fleet.progress[one.key] = progress
    return report(fleet)


def row(progress: ProgressSums) -> ProgressRow:
    (whole,) = (each for each in told(progress).progress if each.by == "all")
    return whole


STEPS = {"starting": 4.0, "held_idle": 10.0, "alone": 6.0, "done_again": 20.0}


def test_the_ratios_multiply_to_the_share_of_the_last_factor() -> None:
    steps = told(ProgressSums(100.0, STEPS, 0.0, step=90.0, restarts=2.0)).chain
    hours = {step.factor: step.gpu_hours for step in steps}
    assert hours == pytest.approx(
        {"capacity": 400, "allocated": 100, "together": 80, "progress": 60, "ofu": 22.5}
    )  # of the work of 30, a quarter was done in 20 of 80 hours
    assert prod(step.ratio or 0.0 for step in steps) == pytest.approx(steps[-1].share)
    *_, last = told(ProgressSums(100.0, STEPS, 6.0, step=90.0, restarts=2.0)).chain
    assert last.gpu_hours == pytest.approx(18), "6 of it were done in what was lost otherwise"


def test_what_no_agent_counts_is_not_known() -> None:
    """Agents that count neither starts nor restarts; the engines of the job's GPUs are watched."""
    whole = row(ProgressSums(100.0, {"held_idle": 10.0}))
    assert (whole.held_idle_gpu_hours, whole.alone_gpu_hours) == (10.0, 0.0)
    assert whole.starting_gpu_hours is None
    assert whole.done_again_gpu_hours is None
    assert whole.restarts is None


def test_a_job_that_says_its_steps_alone_says_nothing_of_evaluations() -> None:
    whole = row(ProgressSums(100.0, STEPS, step=90.0, restarts=0.0))
    assert (whole.done_again_gpu_hours, whole.restarts) == (20.0, 0)
    assert (whole.evaluation_gpu_hours, whole.checkpoint_gpu_hours) == (None, None)


def test_a_job_whose_engines_nobody_watched_has_no_row() -> None:
    assert told(ProgressSums()).progress == []


def test_a_restart_costs_what_was_lost_until_the_next_one() -> None:
    sums = ProgressSums(100.0, STEPS, restarts=3.0, step=90.0)
    sums.restarted = {5: 1.0, 9: 2.0}
    sums.recovering = {2: 4.0, 5: 1.0, 6: 2.0, 9: 8.0, 11: 4.0}
    rows = told(sums).restarts
    assert [(row.restarts, row.gpu_hours) for row in rows] == [(2.0, 12.0), (1.0, 3.0)]
    assert all(row.cost == 2.0 * row.gpu_hours for row in rows)
    text = "\n".join(part.title for part in sections(told(sums), None, 20))
    assert "Most expensive restarts (of 2)" in text
