"""Which jobs moved a GPU model: by speed, by share, and together the whole change. What changed names its jobs."""

from __future__ import annotations

import random

import pytest

from ofu_exporter.fleet.changes.report import WANTED, changes_report, collect, share_rows
from ofu_exporter.fleet.changes_result import ChangeRow, SeriesKind
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.fleet_history import (
    ClusterJob,
    FleetHistory,
    JobHistory,
    JobSums,
    MeasuredHours,
)
from ofu_exporter.fleet.history_server import HistoryServer
from ofu_exporter.fleet.hours import DAY, ServerClock
from ofu_exporter.fleet.reports.fleet_report import fleet_report, rated_jobs
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


def halved(second_user: str) -> FleetHistory:
    """Eight days of job 7 of ada, of which the last four have half of the OFU; these may be another user's job."""
    clock, noise = ServerClock(), random.Random(1)
    history = FleetHistory(clock, clock.whole(10 * DAY, 18 * DAY))
    hours, id_ = [*clock.hours(history.span)], ClusterJob("a", "7")
    users = dict.fromkeys(hours[:96], "ada") | dict.fromkeys(hours[96:], second_user)
    for user in dict.fromkeys(users.values()):
        history.note_user(id_, user, [hour for hour in hours if users[hour] == user])
    measured = history.measured.setdefault(id_, MeasuredHours())
    for hour in hours:
        used = 8 * (0.4 if hour < hours[96] else 0.2) * (1 + noise.gauss(0, 0.02))
        job = history.job(history.owned(id_, hour))
        history.add_hour(job, hour, (8.0, 8.0, used, 0.0, 0.0, 0.0))
        job.names[f"train-{users[hour]}", users[hour], "", "", "", "", ""] = 1
        job.models = {"H100": 1.0}
        measured.add({hour: 8.0}, {hour: used})
    return history


def changes(history: FleetHistory, kind: SeriesKind) -> list[ChangeRow]:
    reader, jobs = ChunkReader(HistoryServer("nobody")), rated_jobs(history, WANTED)
    collected = collect(reader, history, [job.row for job in jobs], [kind])
    fleet = fleet_report(history, WANTED, reader, jobs)
    return changes_report(collected, fleet, 1.1, [kind]).changes


@pytest.mark.parametrize("kind", ["job", "model"])
def test_a_job_that_ended_as_the_time_began_hides_no_change(kind: SeriesKind) -> None:
    """Its totals are still served then, and it held nothing in the time."""
    history = halved("ada")
    history.add_hour(history.job(ClusterJob("a", "6")), 241, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    (change,) = changes(history, kind)
    assert change.factor == pytest.approx(0.5, rel=0.02)
    assert [row.job_name for row in change.shares] == ["train-ada"] * (kind == "model")


def test_an_id_that_was_of_two_users_is_two_jobs_of_which_none_changed() -> None:
    history = halved("bob")
    assert changes(history, "job") == []
    (change,) = changes(history, "model")
    shares = {row.user: (row.share_before, row.share_after) for row in change.shares}
    assert shares == {"ada": (1.0, 0.0), "bob": (0.0, 1.0)}
