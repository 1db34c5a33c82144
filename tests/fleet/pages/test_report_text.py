"""A report as text: names of others do no harm, and what is left out is said."""

from __future__ import annotations

import csv
import io

from ofu_exporter.fleet.history.fleet_history import JobSums
from ofu_exporter.fleet.pages import report_text, rows
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.reports.result import FleetReport
from tests.fleet.reports.test_fleet_report import history, job, report
from tests.helpers.every import every


def in_words(found: FleetReport, most_rows: int = 20) -> tuple[str, str]:
    """The report as text and in Markdown."""
    document = report_text.document(found, most_rows=most_rows)
    return document.plain(), document.markdown()


@every([({}, "agrees"), ({"verdicts": {}}, "trace: host_bound 30.0%")])
def test_a_trace_stands_beside_the_verdict(known: dict[str, object], begin: str) -> None:
    """Of two findings the one that cost more."""
    given = {"verdicts": {"agree": 5.0}, "findings": {"padding": 0.1, "host_bound": 0.3}, **known}
    found = report(history(job("1", "alice", JobSums(80, 80, 32), **given)))
    (row,) = found.jobs
    assert (row.finding, row.finding_ratio) == ("host_bound", 0.3)
    for words in in_words(found):  # Markdown escapes the line below
        (line,) = (each for each in words.replace("\\", "").splitlines() if "trace: " in each)
        assert begin in line
        assert "trace: host_bound 30.0%" in line


def test_names_of_others_break_neither_terminal_nor_table_nor_spreadsheet() -> None:
    assert "\x1b" not in in_words(report())[0]
    assert "bob\\|x" in in_words(report())[1]
    written = rows.as_csv(report())
    read = [*csv.DictReader(io.StringIO(written))]
    assert {row["name"] for row in read} == {
        *("alice", "bob|x", "'=carol", "dave\\x1b[31m", "(no job)")
    }
    assert {row["mfu"] for row in read if row["name"] == "'=carol"} == {""}


def test_a_job_on_a_part_of_a_gpu_did_not_hold_none() -> None:
    found = history(job("9", "ann", JobSums(3.4, 3.4, 1)))
    found.hours = {found.clock.hour_of(found.span.end): JobSums(held=0.14)}
    assert "1 job held at most 0.14 of " in in_words(report(found))[0]
    assert ">area: GPUs, 0.14 at most<" in page(report(found))


def test_text_names_the_cause_of_a_job_below_its_ofu_in_words() -> None:
    sums = JobSums(0.14, 0.14, 0.04, 0.14, 0.02, 0.04)
    found = report(
        history(
            job("9", "u" * 200, sums, verdicts={"mfu_below_ofu": 1.0}, causes={"sparse_peak": 1.0})
        )
    )
    shown = in_words(found)[0]
    assert "MFU below OFU: sparse_peak" in shown
    assert "mfu_below_ofu" not in shown
    assert "u" * 70 not in shown
    assert "1 job on" in shown
    assert " -0 " not in shown


def test_a_table_that_leaves_rows_out_says_how_many_and_what_they_held() -> None:
    jobs = [job(f"{number}", f"user{number}", JobSums(held=number)) for number in range(1, 7)]
    for shown in in_words(report(history(*jobs)), 4):
        assert shown.count("2 more held 3.0 GPU-hours; --format csv or json has all.") == 2
    assert "more held" not in in_words(report(history(*jobs)), 6)[0]
    assert "more held" not in page(report(history(*jobs)))
