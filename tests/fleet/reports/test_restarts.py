"""A restart costs what was lost until the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.pages.report_text import sections
from ofu_exporter.fleet.reports.fleet_report import ReportOptions
from ofu_exporter.fleet.whole_report import WholeReport, whole_report
from tests.fleet.reports.test_chain import STEPS, told
from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    ScheduledJob,
    StoredNode,
    pages,
    reading,
    stored_pages,
)


def test_a_restart_costs_what_was_lost_until_the_next_one() -> None:
    sums = ProgressSums(100.0, STEPS, restarts=3.0, step=90.0)
    sums.restarted = {5: 1.0, 9: 2.0}
    sums.recovering = {2: 4.0, 5: 1.0, 6: 2.0, 9: 8.0, 11: 4.0}
    rows = told(sums).restarts
    assert [(row.restarts, row.gpu_hours) for row in rows] == [(2.0, 12.0), (1.0, 3.0)]
    assert all(row.cost == 2.0 * row.gpu_hours for row in rows)
    text = "\n".join(part.title for part in sections(told(sums), None, 20))
    assert "Most expensive restarts (of 2)" in text


@pytest.mark.slow
@pytest.mark.prometheus
def test_a_count_that_fell_while_nobody_looked_is_no_restart_less(tmp_path: Path) -> None:
    """The agent began anew without a state file, and was scraped once in that hour."""
    node = StoredNode("a", "n1", "H100", 4, away=(1.99, 2.99))
    job = ScheduledJob("7", "ann", (node,), 0, 5, 0.3)
    times = [BEGIN + 60 * minute for minute in range(301)]
    counted = [
        f"ofu_job_restarts_total{job.labels(node)} {2.0 * (1.2 < (at - BEGIN) / HOUR < 2)} {at}"
        for at in times
        if not node.is_away(at)
    ]
    text = pages((node,), (job,), 5).removesuffix("# EOF\n")
    text += "\n".join(["# TYPE ofu_job_restarts counter", *counted, "# EOF", ""])
    wanted = WholeReport(ReportOptions("user", Prices()), finds_changes=False)
    with stored_pages(tmp_path, text) as prometheus, reading(prometheus.url) as reader:
        found = whole_report(reader, (BEGIN, BEGIN + 5 * HOUR), wanted)
    assert [round(row.restarts) for row in found.restarts] == [2]
