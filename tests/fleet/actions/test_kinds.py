"""Each kind of action sees what it is about, and nothing that is only like it."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter.fleet.actions.kinds import sure_regressions
from ofu_exporter.fleet.history.fleet_history import JobSums
from tests.fleet.actions.test_actions import CHANGE, GOOD, HALVED, acted, changes_of
from tests.fleet.reports.test_fleet_report import job

BACK = {"direction": "improvement", "at": "2026-11-10T00:00:00Z", "ofu_after": 0.31}


@pytest.mark.parametrize(
    ("later", "is_told"),
    [
        ({}, False),
        ({"ofu_after": 0.3}, True),
        ({"at": "2026-11-06T00:00:00Z"}, True),
        ({"labels": {**CHANGE.labels, "job_id": "other"}}, True),
    ],
)
def test_a_regression_that_is_over_is_no_action(later: dict[str, Any], is_told: bool) -> None:
    """It is over when the same jobs are, later on, nearly where they had been."""
    other = CHANGE.model_copy(update={**BACK, **later})
    found = acted(HALVED, changes=changes_of(CHANGE, other))
    assert ("regression" in {row.kind for row in found.actions}) == is_told


def test_of_jobs_of_one_name_those_from_before_the_regression_are_not_named() -> None:
    model = "NVIDIA H100 80GB HBM3"
    labels = {"cluster": "a", "job_name": "train-alan", "user": "alan", "model": model}
    jobs = [job(name, "alan", JobSums(500, 500, 200)) for name in ("before", "after")]
    found = acted(*jobs)
    at = found.jobs[1].begin
    rows = [found.jobs[0].model_copy(update={"begin": "2000-01-01T00:00:00Z"}), found.jobs[1]]
    change = CHANGE.model_copy(update={"kind": "name", "labels": labels, "at": at})
    found = found.model_copy(update={"jobs": rows, "changes": changes_of(change)})
    assert [*sure_regressions(found)] == [(change, rows[1:])]


def test_jobs_that_rest_for_half_of_their_time_hold_gpus_idle() -> None:
    jobs = [job(str(n), "ada", JobSums(1000, 1000, 200, idle=500)) for n in range(2)]
    less = job("less", "bob", JobSums(1000, 1000, 200, idle=499))
    (idle,) = (row for row in acted(*jobs, less).actions if row.kind == "held_idle")
    what = "held GPUs and did no tensor work most of the measured time"
    assert (idle.who, idle.what, idle.gpu_hours) == ("train-ada of ada, 2 jobs", what, 1000)


def test_what_a_job_reached_while_busy_is_held_against_others_and_its_idle_time_is_not() -> None:
    found = acted(*GOOD, job("slow", "bob", JobSums(1000, 1000, 120, idle=400)))
    (below,) = (row for row in found.actions if row.kind == "below_others")
    assert below.what == "reached an OFU of 20.0% while busy"
    assert "takes 50.0% less GPU time" in below.why
    assert below.gpu_hours == pytest.approx(600 - 120 / 0.4)
