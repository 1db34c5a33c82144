"""A report over the pages of simulated agents says truly where the peak of each job's GPU-hours went.

Nothing on the way knows the truth: the agents see counters, a real Prometheus keeps their pages, the report asks it.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any, NamedTuple

import pytest

from ofu_exporter.fleet.reports.funnel import HELD_NO_KERNEL, WAITING
from ofu_exporter.fleet.reports.job_result import JobResult
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.values.losses import Loss
from tests.helpers import fleet_truth
from tests.helpers.agent import call
from tests.helpers.fleets import BEGIN, HOUR, fleet
from tests.helpers.simulated_pages import scraped
from tests.helpers.stored_fleet import read_in, stored

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

PARTS = ("clock", "no_tensor", "empty_sms", "idle")
HOURS = 3
OVER_TIME = {
    "waits": "idle",
    "small": "empty SMs",
    "hot": "no tensor work",
    "fast": "no tensor work",
}
"""Jobs whose story is told, and the words for their largest loss."""
FLEET = f"""
length: {HOURS}h
interval: 30
nodes:
  - {{name: n, count: 2, model: H100, gpus: 4, partition: batch}}
jobs:
  - {{name: waits, users: [ada], gpus: 4, ofu: 0.25, idle: 0.4, empty_sms: 0.02}}
  - {{name: small, users: [bob], gpus: 2, ofu: 0.35, idle: 0.02, empty_sms: 0.3, lasts: 2h}}
  - {{name: fast, users: [eve], gpus: 1, ofu: 0.6, clock_mhz: 1980, idle: 0.0, empty_sms: 0.0}}
  - {{name: hot, users: [eve], gpus: 1, ofu: 0.3, clock_mhz: 915}}
  - {{name: notebook, users: [bob], gpus: 1, work: idle, start: 2h}}
faults:
  - {{fault: gpu_lost, nodes: [n2], gpus: [0], at: 140m, lasts: 15m}}
"""


LOST = 0.25
"""GPU-hours of the notebook, which does nothing, that its fault takes."""


class FleetAnswers(NamedTuple):
    """What the commands say, and the truth of each job."""

    report: FleetReport
    jobs: dict[str, JobResult]
    texts: dict[str, str]
    truth: list[dict[str, Any]]


def asked(*words: str) -> str:
    flags = ("--since", f"{HOURS}h", "--until", f"2025-08-27T0{HOURS}:00Z")
    done = call("fleet", *words, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> FleetAnswers:
    """What is told of all pages."""
    folder = tmp_path_factory.mktemp("parts")
    simulated = fleet(FLEET, folder)
    read_in(folder, scraped(simulated, BEGIN))
    truth = fleet_truth.facts(simulated)
    with stored(folder) as prometheus:
        where = ("--prometheus", prometheus.url)
        report = FleetReport.model_validate_json(asked("report", "--format", "json", *where))
        ids = {job["name"]: job["job_id"] for job in truth if job["name"] in OVER_TIME}
        jobs = {
            name: JobResult.model_validate_json(asked("job", one, "--format", "json", *where))
            for name, one in ids.items()
        }
        texts = {name: asked("job", one, *where) for name, one in ids.items()}
    return FleetAnswers(report, jobs, texts, truth)


def test_each_jobs_parts_are_true(told: FleetAnswers) -> None:
    report, truth = told.report, told.truth
    rows = {row.job_id: row for row in report.jobs}
    assert len(rows) == len(truth) == 5
    for job in truth:
        row = rows[job["job_id"]]
        assert row.observed_gpu_hours
        shares = {
            part: (getattr(row, f"lost_{part}_gpu_hours") or 0.0) / row.observed_gpu_hours
            for part in PARTS
        }
        assert shares == pytest.approx(job["lost"], abs=0.01), job["name"]
        assert (row.lost_unsplit_gpu_hours or 0.0) < 0.01, job["name"]
    fast = next(job for job in truth if job["name"] == "fast")
    assert fast["lost"]["clock"] < -0.02, "the pipes ran above the tensor clock"


def test_the_waterfall_is_the_sum_of_the_truth(told: FleetAnswers) -> None:
    report, truth = told.report, told.truth
    steps = {step.name: step.gpu_hours or 0.0 for step in report.waterfall}
    steps["idle"] = steps.pop(HELD_NO_KERNEL) + steps.pop(WAITING)
    for part in PARTS:
        hours = sum(job["lost"][part] * job["held_gpu_seconds"] for job in truth) / HOUR
        hours -= LOST if part == "idle" else 0.0
        assert steps[part] == pytest.approx(hours, abs=0.2), part
    assert steps["unmeasured"] == pytest.approx(LOST, abs=0.05)
    used = sum(job["ofu"] * job["held_gpu_seconds"] for job in truth) / HOUR
    assert steps["delivered"] == pytest.approx(used, rel=0.02)
    installed = steps.pop("installed")
    assert installed == pytest.approx(8 * HOURS, rel=0.02)
    assert sum(steps.values()) == pytest.approx(installed, rel=0.01)


@pytest.mark.parametrize("name", OVER_TIME)
def test_a_jobs_parts_over_time_are_true(told: FleetAnswers, name: str) -> None:
    job = next(job for job in told.truth if job["name"] == name)
    points = [point for point in told.jobs[name].points[10:-10] if point.ofu is not None]
    assert len(points) > 50
    for point in points:
        assert math.fsum(point.lost.values()) + (point.ofu or 0.0) == pytest.approx(1.0, abs=1e-6)
    for part, share in job["lost"].items():
        mean = fmean(point.lost[Loss(part)] for point in points)
        assert mean == pytest.approx(share, abs=0.01), part
    table = told.texts[name].partition("Over time, ")[2]
    assert f"{OVER_TIME[name]} " in table
