"""A restart costs what was lost until the next one."""

from __future__ import annotations

from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.pages.report_text import sections
from tests.fleet.reports.test_chain import STEPS, told


def test_a_restart_costs_what_was_lost_until_the_next_one() -> None:
    sums = ProgressSums(100.0, STEPS, restarts=3.0, step=90.0)
    sums.restarted = {5: 1.0, 9: 2.0}
    sums.recovering = {2: 4.0, 5: 1.0, 6: 2.0, 9: 8.0, 11: 4.0}
    rows = told(sums).restarts
    assert [(row.restarts, row.gpu_hours) for row in rows] == [(2.0, 12.0), (1.0, 3.0)]
    assert all(row.cost == 2.0 * row.gpu_hours for row in rows)
    text = "\n".join(part.title for part in sections(told(sums), None, 20))
    assert "Most expensive restarts (of 2)" in text
