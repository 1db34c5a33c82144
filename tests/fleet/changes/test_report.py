"""Which jobs moved a GPU model: by speed, by share, and together the whole change."""

from __future__ import annotations

import pytest

from ofu_exporter.fleet.changes.report import share_rows
from ofu_exporter.fleet.history.fleet_history import ClusterJob, JobHistory, JobSums
from ofu_exporter.fleet.reports.result import JobRow

DAYS = (range(10, 12), range(13, 15))


def job(name: str, days: dict[int, tuple[float, float]]) -> tuple[JobHistory, JobRow]:
    """A job with measured GPU-hours and OFU by day."""
    history = JobHistory(ClusterJob("", name))
    for day, (hours, ofu) in days.items():
        history.days[day] = JobSums(observed=hours, utilized=hours * ofu)
    row = JobRow.model_construct(cluster="", job_id=name, job_name=name, user="u", model="H100")
    return history, row


def test_one_that_got_slower_has_the_whole_change() -> None:
    rows = share_rows(
        [
            job("slower", {10: (50, 0.4), 13: (50, 0.2)}),
            job("same", {11: (50, 0.3), 14: (50, 0.3)}),
        ],
        "",
        "H100",
        DAYS,
    )
    assert [row.job_name for row in rows] == ["slower", "same"]
    assert rows[0].points == pytest.approx(-10)
    assert rows[1].points == pytest.approx(0)
    assert (rows[0].ofu_before, rows[0].ofu_after) == pytest.approx((0.4, 0.2))


def test_the_three_that_moved_it_most_are_named() -> None:
    jobs = [job(f"{drop}", {10: (50, 0.6), 13: (50, 0.6 - 0.1 * drop)}) for drop in range(5)]
    assert [row.job_name for row in share_rows(jobs, "", "H100", DAYS)] == ["4", "3", "2"]


def test_one_that_came_has_changed_the_mix() -> None:
    rows = share_rows(
        [job("fast", {10: (100, 0.5), 13: (50, 0.5)}), job("idle", {13: (50, 0.1)})],
        "",
        "H100",
        DAYS,
    )
    (idle,) = (row for row in rows if row.job_name == "idle")
    assert (idle.share_before, idle.share_after, idle.ofu_before) == (0.0, 0.5, None)
    assert sum(row.points for row in rows) == pytest.approx(30 - 50)


def test_the_day_of_the_change_is_on_neither_side() -> None:
    assert share_rows([job("a", {12: (50, 0.1)})], "", "H100", DAYS) == []
    (row,) = share_rows([job("a", {10: (5, 0.4), 12: (500, 0.1), 13: (5, 0.4)})], "", "H100", DAYS)
    assert row.points == pytest.approx(0)


def test_jobs_on_other_models_have_nothing_to_do_with_it() -> None:
    assert share_rows([job("a", {10: (5, 0.4), 13: (5, 0.4)})], "", "A100", DAYS) == []
