"""Series of jobs: one point for each job, by name, user and model, in the order of their begin."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from ofu_exporter.fleet.changes.series import (
    SHORT,
    UNMEASURED,
    UNNAMED,
    job_series,
    long_jobs,
    models,
)
from ofu_exporter.fleet.changes.survey import survey
from ofu_exporter.fleet.history.fleet_history import MeasuredHours
from ofu_exporter.fleet.reports.result import JobRow
from tests.fleet.reports.test_fleet_report import FIRST, HONEST, WRONG, history


def row(job_id: str, begin: str = "2026-01-05T00:00:00Z", **more: Any) -> JobRow:
    known = {name: None for name in JobRow.model_fields}
    texts = dict.fromkeys(("cluster", "account", "partition", "namespace"), "")
    values = {
        "job_name": "train",
        "user": "ana",
        "model": "H100",
        "gpus": 8.0,
        "begin": begin,
        "end": begin,
        "ofu": 0.4,
        "observed_gpu_hours": 16.0,
    }
    return JobRow.model_construct(**{**known, **texts, **values, "job_id": job_id, **more})


def test_jobs_of_one_name_and_user_are_one_series_in_order_of_time() -> None:
    (series,), left = job_series([row("9", "2026-01-06T00:00:00Z"), row("8"), row("10")])
    assert [point.job_id for point in series.points] == ["8", "10", "9"]
    assert series.points[0].at_unix == 1767571200.0
    assert dict(series.labels) == {
        "cluster": "",
        "job_name": "train",
        "user": "ana",
        "model": "H100",
    }
    assert not any(left.values())


def test_a_point_has_ofu_size_and_hours() -> None:
    (series,), _ = job_series([row("1", ofu=0.25, gpus=64.0, observed_gpu_hours=128.0)])
    (point,) = series.points
    assert (point.value, point.gpus, point.gpu_hours) == (0.25, 64.0, 128.0)


@pytest.mark.parametrize(
    "other", [{"user": "bob"}, {"job_name": "eval"}, {"model": "A100"}, {"cluster": "b"}]
)
def test_other_jobs_are_another_series(other: dict[str, str]) -> None:
    found, _ = job_series([row("1"), row("2", **other)])
    assert len(found) == 2


def test_what_is_no_point_is_counted_by_its_reason() -> None:
    rows = [
        row("1", job_name=""),
        row("2", ofu=None),
        row("3", observed_gpu_hours=0.8),
        row("4", observed_gpu_hours=0.8),
        row("5", gpus=None, observed_gpu_hours=0.8),
    ]
    found, left = job_series(rows)
    assert left == {UNNAMED: 1, UNMEASURED: 1, SHORT: 2}
    assert [point.job_id for series in found for point in series.points] == ["5"]


def test_an_hour_of_a_model_is_a_quotient_of_sums_over_its_jobs() -> None:
    two = history(HONEST, WRONG)
    for job, utilized in ((HONEST, 4.0), (WRONG, 1.0)):
        two.measured[job.key] = MeasuredHours()
        two.measured[job.key].add({FIRST: 8.0, FIRST + 1: 2.0}, {FIRST: utilized})
    (series,) = models(two, [])
    assert [(point.value, point.gpu_hours) for point in series.points] == [(5 / 16, 16.0)]


def told(levels: Sequence[float]) -> dict[str, list[tuple[str, int]]]:
    """What is told of a job by hour, and of all jobs on its GPUs: the direction of each change, and at which hour."""
    one = history(HONEST)
    noise = random.Random(3)
    one.measured[HONEST.key] = MeasuredHours()
    utilized = {
        FIRST + at: 8 * level * noise.gauss(1, 0.03) for at, level in enumerate([0.4, *levels])
    }
    one.measured[HONEST.key].add(dict.fromkeys(utilized, 8.0), utilized)
    begin = one.clock.end_of(FIRST)
    return {
        kind: [
            (
                "down" if each.level.factor < 1 else "up",
                round((each.after[0].at_unix - begin) / 3600),
            )
            for each in survey(series, 1.1).changes
        ]
        for kind, series in (("job", long_jobs(one, [])), ("model", models(one, [])))
    }


PAUSE = [0.15, *[0.0] * 8, 0.2]
"""It pauses within an hour, and goes on within one."""


def test_a_pause_is_no_change_and_what_changed_in_it_is_one() -> None:
    assert told([*[0.4] * 30, *PAUSE, *[0.4] * 30]) == {"job": [], "model": []}
    assert told([*PAUSE, *[0.4] * 40])["job"] == [], "nor is a late start"
    assert told([*[0.4] * 30, *PAUSE, *[0.2] * 30])["job"] == [("down", 40)]


def test_a_job_that_computes_nothing_any_more_got_worse() -> None:
    assert told([*[0.4] * 30, 0.15, *[0.0] * 20])["job"] == [("down", 30)]
