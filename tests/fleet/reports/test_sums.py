"""Sums of jobs are added name by name, and none is forgotten."""

from __future__ import annotations

from dataclasses import fields

from ofu_exporter.fleet.reports.sums import JobSums


def test_every_sum_is_added() -> None:
    sums = JobSums(*(float(number) for number, _ in enumerate(fields(JobSums), 1)))
    sums.add(sums)
    assert [getattr(sums, each.name) for each in fields(JobSums)] == [
        2.0 * number for number, _ in enumerate(fields(JobSums), 1)
    ]
