"""A row of a job: what is unknown stays so, what is not a number of its own is none, and times read back."""

from __future__ import annotations

import pytest

from ofu_exporter.fleet.reports.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.reports.job_rows import _gpus, iso, job_row, longest, names_of, times, unix
from ofu_exporter.fleet.reports.result import JobRow
from tests.fleet.reports.test_fleet_report import CLOCK, FIRST, PRICED, job
from tests.helpers.every import every


def row_of(made: JobHistory) -> JobRow:
    return job_row(made, CLOCK, 0.4, PRICED)


@every(
    [
        ([], None),
        ([8.0, 8.0, 7.99], 8.0),
        ([64.0, 62.6], 63.0),
        ([2.05], 2.05),
        ([2.03], 2.0),
        ([0.14], 0.14),
        ([0.5], 0.5),
        ([1.0, 4.0, 4.0], 4.0),
    ]
)
def test_its_gpus_are_the_median_and_whole_where_they_nearly_are(
    sizes: list[float], gpus: float | None
) -> None:
    assert _gpus(sizes) == gpus


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
