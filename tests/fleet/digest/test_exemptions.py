"""A job is exempt for what is known of it, and never for what is not."""

from __future__ import annotations

from typing import Any

from ofu_exporter.fleet.digest.config_file import Exemptions
from ofu_exporter.fleet.digest.exemptions import exemption
from ofu_exporter.fleet.digest.signs import JobSigns
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.fleet.reports.sums import JobSums
from tests.fleet.reports.test_fleet_report import history, job, report
from tests.helpers.every import every

NOTHING = JobSigns()


def row(held: float = 8.0, **known: object) -> JobRow:
    """A job of 8 GPUs, so that 8 GPU-hours are one hour."""
    (found,) = report(history(job("1", "ada", JobSums(held, held, 1), **known))).jobs
    return found


def why(of: JobRow, signs: JobSigns = NOTHING, **wanted: Any) -> str | None:
    return exemption(of, signs, Exemptions.model_validate(wanted))


def test_by_default_nothing_is_exempt() -> None:
    assert why(row(0.01), JobSigns(dram_busy=1.0, dram_hours=1.0)) is None


@every(
    [
        ({"partitions": ["inter*"]}, None),
        ({"partitions": ["inter*", "g?u"]}, "its partition is exempt"),
        ({"job_names": ["train-*"]}, "its name is exempt"),
        ({"users": ["ada"]}, "its user is exempt"),
        ({"users": ["ad"]}, None),
    ]
)
def test_names_are_exempt_by_pattern(wanted: dict[str, Any], said: str | None) -> None:
    assert why(row(), **wanted) == said


def test_a_name_that_is_not_known_fits_no_pattern() -> None:
    assert why(row(names={}), partitions=["*"], job_names=["*"], users=["*"]) is None


@every([(1.0, True), (1.33, True), (1.34, False), (8.0, False)])
def test_a_job_is_short_by_the_time_for_which_it_held_its_gpus(
    held: float, is_exempt: bool
) -> None:
    said = why(row(held), shorter_than="10m")
    assert said == ("shorter than 10 min" if is_exempt else None)


def test_a_job_whose_gpus_are_not_known_is_not_short() -> None:
    assert why(row(0.01, sizes=[]), shorter_than="10m") is None


@every(
    [(0.7, 1.0, True), (0.6, 1.0, True), (0.59, 1.0, False), (0.9, 0.4, False), (None, 0.0, False)]
)
def test_a_job_is_memory_bound_only_where_most_of_it_was_measured_so(
    busy: float | None, hours: float, is_exempt: bool
) -> None:
    said = why(row(), JobSigns(dram_busy=busy, dram_hours=hours), dram_busy=0.6)
    assert (said is not None and "memory-bound" in said) == is_exempt
