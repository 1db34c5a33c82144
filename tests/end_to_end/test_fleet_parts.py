"""A report over the pages of simulated agents says truly where the peak of each job's GPU-hours went.

Nothing on the way knows the truth: the agents see counters, a real Prometheus keeps their pages, the report asks it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation import history, truth_file
from tests.helpers.fleets import BEGIN, HOUR, fleet
from tests.helpers.stored_fleet import read_in, stored

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

PARTS = ("clock", "no_tensor", "empty_sms", "idle")
HOURS = 3
FLEET = f"""
length: {HOURS}h
nodes:
  - {{name: n, count: 2, model: H100, gpus: 4, partition: batch}}
jobs:
  - {{name: waits, users: [ada], gpus: 4, ofu: 0.25, idle: 0.4, empty_sms: 0.02}}
  - {{name: small, users: [bob], gpus: 2, ofu: 0.35, idle: 0.02, empty_sms: 0.3, lasts: 2h}}
  - {{name: fast, users: [eve], gpus: 1, ofu: 0.6, clock_mhz: 1980, idle: 0.0, empty_sms: 0.0}}
  - {{name: hot, users: [eve], gpus: 1, ofu: 0.3, clock_mhz: 915}}
  - {{name: notebook, users: [bob], gpus: 1, work: idle, start: 2h}}
history: {{levels: [], raw: [{{nodes: ["n1..2"], lasts: {HOURS}h}}]}}
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[FleetReport, list[dict[str, Any]]]:
    """The report over all pages, and the truth of each job."""
    folder = tmp_path_factory.mktemp("parts")
    simulated = fleet(FLEET, folder)
    truth_file.write(simulated, BEGIN, folder / "truth")
    (folder / "om").mkdir()
    for written in history.write(simulated, BEGIN, folder / "om"):
        if written.path.name.startswith("raw"):
            read_in(folder, written.path.read_text())
    command = [sys.executable, "-m", "ofu_exporter", "fleet", "report", "--format", "json"]
    with stored(folder) as prometheus:
        flags = ["--prometheus", prometheus.url, "--since", f"{HOURS}h"]
        flags += ["--until", f"2025-08-27T0{HOURS}:00Z"]
        done = subprocess.run([*command, *flags], check=True, capture_output=True, text=True)
    lines = (folder / "truth" / truth_file.JOBS).read_text().splitlines()
    return FleetReport.model_validate_json(done.stdout), [json.loads(line) for line in lines]


def test_each_jobs_parts_are_true(reported: tuple[FleetReport, list[dict[str, Any]]]) -> None:
    report, truth = reported
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
        assert row.lost_unsplit_gpu_hours is None, job["name"]
    fast = next(job for job in truth if job["name"] == "fast")
    assert fast["lost"]["clock"] < -0.02, "the pipes ran above the tensor clock"


def test_the_waterfall_is_the_sum_of_the_truth(
    reported: tuple[FleetReport, list[dict[str, Any]]],
) -> None:
    report, truth = reported
    steps = {step.name: step.gpu_hours or 0.0 for step in report.waterfall}
    for part in PARTS:
        hours = sum(job["lost"][part] * job["held_gpu_seconds"] for job in truth) / HOUR
        assert steps[part] == pytest.approx(hours, abs=0.2), part
    used = sum(job["ofu"] * job["held_gpu_seconds"] for job in truth) / HOUR
    assert steps["delivered"] == pytest.approx(used, rel=0.02)
    installed = steps.pop("installed")
    assert installed == pytest.approx(8 * HOURS, rel=0.02)
    assert sum(steps.values()) == pytest.approx(installed, rel=0.01)
