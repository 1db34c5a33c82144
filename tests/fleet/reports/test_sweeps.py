"""Jobs that one user ran under one name many times are one line, which adds them up."""

from __future__ import annotations

import re

import pytest

from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.pages import report_text
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.reports.sweeps import FEWEST, anchor_of, lines
from tests.fleet.reports.test_fleet_report import history, job, of_two_users, report

SIZES = [4.0, 8.0, 8.0]


def sweep(count: int, user: str = "ada", first: int = 0) -> list[JobHistory]:
    """Jobs of 10, 11, 12 ... GPU-hours, at an OFU of 20 %; they report 30 % of half of these."""
    return [
        job(
            str(first + n),
            user,
            JobSums(10 + n, 10 + n, (10 + n) / 5, (10 + n) / 2, (10 + n) * 0.15, (10 + n) / 10),
            sizes={SIZES[n % 3]: 1.0},
            verdicts={"mfu_above_ofu" if n else "agree": 1.0},
        )
        for n in range(count)
    ]


def of(*jobs: JobHistory) -> FleetReport:
    return report(history(*jobs))


def test_jobs_of_one_name_and_user_are_one_line_with_their_sums() -> None:
    found = of(*sweep(5), *sweep(2, "bob", 100), job("200", "eve", JobSums(1000, 1000, 300)))
    (row,) = found.sweeps
    assert (row.jobs, row.user, row.job_name, row.job_id) == (5, "ada", "train-ada", "4")
    assert row.held_gpu_hours == pytest.approx(10 + 11 + 12 + 13 + 14)
    assert row.ofu == pytest.approx(0.2)
    assert row.mfu == pytest.approx(0.3)
    assert row.error == pytest.approx(0.1)
    assert row.verdict == "mfu_above_ofu"
    assert (row.fewest_gpus, row.most_gpus) == (4.0, 8.0)
    assert [each.held_gpu_hours for each in lines(found)] == [1000, 60, 11, 10]
    assert len(found.jobs) == 8  # each is still told by itself


@pytest.mark.parametrize(("count", "is_sweep"), [(FEWEST - 1, False), (FEWEST, True)])
def test_a_few_jobs_are_no_sweep(count: int, is_sweep: bool) -> None:
    assert bool(of(*sweep(count)).sweeps) is is_sweep


def test_jobs_without_a_name_are_no_sweep() -> None:
    nameless = [("", "ada", "lab", "gpu", "", "slurm", "")]
    found = of(*(job(str(n), "ada", JobSums(10, 10, 2), names={nameless[0]: 1}) for n in range(5)))
    assert found.sweeps == []
    assert len(lines(found)) == 5


def test_every_form_for_people_has_one_line_with_the_count() -> None:
    found = of(*sweep(40), job("200", "eve", JobSums(5000, 5000, 1500)))
    document = report_text.document(found)
    for words in (document.plain(), document.markdown().replace("\\", "")):
        table = words.partition("Jobs (41), by GPU-hours")[2]
        (line,) = (each for each in table.splitlines() if "train-ada" in each)
        assert "a/39" in line
        assert re.search(r"\b40\b.*train-ada.*4-8", line)
    html = page(found)
    (row,) = re.findall(r'<tr id="job-a-39">.*?</tr>', html, re.DOTALL)
    assert ">40<" in row
    assert 'id="job-a-38"' not in html
    assert anchor_of(found, found.jobs[3]) == "job-a-39"


def test_two_users_jobs_of_one_id_have_a_place_each_on_the_page() -> None:
    found = of(*of_two_users())
    assert re.findall(r'id="(job-[^"]*)"', page(found)) == ["job-a-7-ada", "job-a-7-bob"]
    assert [anchor_of(found, row) for row in found.jobs] == ["job-a-7-ada", "job-a-7-bob"]


def test_what_is_left_out_of_a_table_counts_jobs_and_not_lines() -> None:
    text = report_text.document(
        of(*sweep(40), *sweep(30, "bob", 100), *sweep(1, "eve", 500)), most_rows=1
    ).plain()
    assert "31 more held" in text
