"""Days add up to the whole, and what no job held is a row of its own."""

from __future__ import annotations

import pytest

from ofu_exporter.fleet.reports.fleet_history import JobSums
from tests.fleet.reports.test_fleet_report import H100, history, job, report


def test_days_add_up_to_what_is_installed_and_what_it_costs() -> None:
    found = report()
    assert sum(row.gpu_hours for row in found.days) == pytest.approx(400)
    assert sum(row.cost or 0.0 for row in found.days) == pytest.approx(800)
    (free,) = (row for row in found.days if row.kind == "free")
    assert free.gpu_hours == pytest.approx(250)
    assert (free.model, free.wasted_gpu_hours) == (H100, None)


def test_a_job_on_unknown_gpus_leaves_it_unknown_which_ones_were_free() -> None:
    found = report(history(job("1", "alice", JobSums(10.0), models={})))
    assert [row.kind for row in found.days] == ["held"]
    assert found.days[0].cost is None
