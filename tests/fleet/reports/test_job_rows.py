"""A row of a job: what is unknown stays so, what is not a number of its own is none, and times read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.reports.funnel import PricedHours
from ofu_exporter.fleet.reports.job_rows import iso, job_row, longest, names_of, times, unix
from ofu_exporter.fleet.reports.result import JobRow
from tests.fleet.reports.test_fleet_report import CLOCK, FIRST, PRICED, history, job, report
from tests.helpers.every import every


def row_of(made: JobHistory) -> JobRow:
    return job_row(made, CLOCK, 0.4, PRICED)


@every(
    [
        ({}, None),
        ({8.0: 2.0, 7.99: 1.0}, 8.0),
        ({64.0: 1.0, 62.6: 0.9}, 64.0),
        ({4.8: 0.05, 8.0: 0.95}, 8.0),  # an hour cut it after three minutes
        ({4.0: 2.0, 8.0: 1.0}, 4.0),  # elastic: 4, 4 and 8 GPUs, an hour each
        ({4.0: 1.0, 8.0: 1.0}, 8.0),
        ({2.4: 0.1, 4.0: 3.0, 8.0: 2.0, 1.6: 0.1}, 4.0),
        ({2.05: 1.0}, 2.05),
        ({2.03: 1.0}, 2.0),
        ({0.14: 1.0}, 0.14),
        ({0.5: 1.0}, 0.5),
    ]
)
def test_its_gpus_are_those_of_most_of_its_time_and_whole_where_they_nearly_are(
    sizes: dict[float, float], gpus: float | None
) -> None:
    made = job("1", "alice", JobSums(8.0))
    made.sizes = sizes
    assert row_of(made).gpus == gpus


def test_the_first_of_equal_names_stands_for_both() -> None:
    assert longest({"b": 2.0, "a": 2.0, "c": 1.0}) == "a"
    made = job("1", "alice", JobSums(8.0))
    assert names_of(made)["user"] == "alice"
    made.names = {}
    assert {*names_of(made).values()} == {""}


def test_an_error_needs_both_numbers_and_a_relative_one_an_ofu_above_0() -> None:
    sums = JobSums(8, 8, 4, compared=8, compared_mfu=4, compared_utilized=2)
    row = row_of(job("1", "alice", sums))
    assert (row.mfu, row.ofu_compared, row.error, row.relative_error) == (0.5, 0.25, 0.25, 1.0)
    row = row_of(job("1", "alice", JobSums(8, 8, 4, 8, 4, 0)))
    assert (row.ofu_compared, row.error, row.relative_error) == (0.0, 0.5, None)
    row = row_of(job("1", "alice", JobSums(8, 8, 4)))
    assert (row.mfu, row.error, row.relative_error) == (None, None, None)


@pytest.mark.parametrize(
    ("hours", "verdict"),
    [
        ({"insufficient_data": 9.0, "agree": 1.0}, "agree"),
        ({"insufficient_data": 9.0}, "insufficient_data"),
        ({}, None),
    ],
)
def test_too_little_data_is_the_verdict_where_there_is_no_other(
    hours: dict[str, float], verdict: str | None
) -> None:
    assert row_of(job("1", "alice", JobSums(8.0), verdicts=hours)).verdict == verdict


def test_what_it_costs_is_unknown_without_hours_or_price() -> None:
    assert (times(3.0, 2.0), times(None, 2.0), times(3.0, None)) == (6.0, None, None)
    row = row_of(job("1", "alice", JobSums(10, 8, 2, idle=4, joules=7.2e6)))
    assert (row.cost, row.idle_cost) == (20, 8)
    assert row.wasted_gpu_hours == pytest.approx(8 * 0.4 - 2)
    assert (row.energy_kwh, row.idle_energy_kwh) == (2.0, None)


def test_it_begins_before_its_first_hour_and_ends_with_its_last() -> None:
    row = row_of(job("1", "alice", JobSums(8.0)))
    assert unix(row.begin) == CLOCK.end_of(FIRST - 1)
    assert unix(row.end) == CLOCK.end_of(FIRST + 9)
    assert iso(unix("2026-11-08T00:00:01Z")) == "2026-11-08T00:00:01Z"


def test_ratios_are_sums_over_sums_and_gpu_hours_without_ofu_are_no_zero() -> None:
    total = report().total
    assert total.ofu == pytest.approx(40 / 130)
    assert total.mfu == pytest.approx(45.2 / 100)
    assert total.wasted_gpu_hours == pytest.approx(130 * 0.4 - 40)
    unmeasured = next(row for row in report().jobs if row.job_id == "3")
    assert (unmeasured.ofu, unmeasured.mfu, unmeasured.error, unmeasured.verdict) == (None,) * 4
    assert report().reporting_ratio == pytest.approx(120 / 130)


def test_errors_verdicts_and_causes_are_those_of_the_job() -> None:
    wrong = next(row for row in report().jobs if row.job_id == "2")
    assert wrong.error == pytest.approx(0.3)
    assert wrong.relative_error == pytest.approx(1.5)
    assert (wrong.verdict, wrong.cause, wrong.gpus) == ("mfu_above_ofu", "sparse_peak", 8.0)
    assert (wrong.begin, wrong.end) == ("2024-10-04T00:00:00Z", "2024-10-04T10:00:00Z")
    assert report().agreement.jobs == 2
    assert report().agreement_without_flagged.jobs == 1
    assert report().agreement_without_flagged.mean_absolute_error == pytest.approx(0.02)


SUMS = st.builds(
    lambda held, measured, ofu, idle: JobSums(
        held, held * measured, held * measured * ofu, idle=held * measured * idle * (ofu == 0)
    ),
    st.floats(0.1, 1e5),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 0.1, 0.4, 0.9]),
    st.floats(0.0, 1.0),
)


@given(st.lists(SUMS, max_size=8))
def test_held_is_unmeasured_idle_and_active_for_any_jobs(sums: list[JobSums]) -> None:
    jobs = [job(str(number), f"user{number % 3}", each) for number, each in enumerate(sums)]
    found = report(history(*jobs, installed=1e6))
    hours = {step.name: step.gpu_hours or 0.0 for step in found.funnel}
    active = hours["active"] - hours["unclaimed"]
    assert hours["held"] == pytest.approx(hours["unmeasured"] + hours["idle"] + active)
    outside = hours["free"] + hours["unclaimed"] + hours["unknown"]
    assert hours["installed"] == pytest.approx(outside + hours["held"])
    assert hours["effective"] <= hours["active"] + 1e-9


def test_what_is_left_of_all_is_nothing_and_no_rounding() -> None:
    both = report(history(job("1", "u", JobSums(0.1, 0.1)), job("2", "u", JobSums(0.2, 0.2))))
    hours = {step.name: step.gpu_hours for step in both.funnel}
    assert 0.1 + 0.2 != 0.3
    assert hours["unmeasured"] == 0.0
    assert PricedHours(0.1 + 0.2, None).less(PricedHours(0.3, None)).gpu_hours == 0.0
