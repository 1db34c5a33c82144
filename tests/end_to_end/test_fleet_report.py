"""A report over a simulated fleet says what is true of it: jobs of all kinds, MIG, crashes, wrong reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.fleet.reports.result import FleetReport, JobRow
from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.fleet import fleet_of
from tests.helpers import fleet_truth
from tests.helpers.agent import call
from tests.helpers.fleets import BEGIN
from tests.helpers.stored_fleet import stored

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("small fleet")]

Reported = tuple[FleetReport, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """The report over the small fleet that ships with the package, and the truth."""
    folder = tmp_path_factory.mktemp("fleet")
    truth = fleet_truth.write(fleet_of(spec.read_spec(Path("small"))), BEGIN, folder)
    with stored(folder) as prometheus:
        flags = ["--prometheus", prometheus.url, "--since", "24h", "--until", "2025-08-28T00:00Z"]
        done = call("fleet", "report", "--format", "json", *flags)
    assert done.returncode == 0, done.stderr
    return FleetReport.model_validate_json(done.stdout), truth


def row_of(reported: Reported, name: str) -> tuple[JobRow, dict[str, Any]]:
    report, truth = reported
    (job,) = (job for job in truth.values() if job["name"] == name)
    return next(row for row in report.jobs if row.job_id == job["job_id"]), job


def test_every_number_is_near_the_truth(reported: Reported) -> None:
    found = fleet_truth.misses(*reported)
    assert found.jobs == 0
    assert found.not_flagged == found.flagged_wrongly == 0
    assert found.correlation < 0.005
    assert found.correlation_without_flagged < 0.005
    assert found.mean_absolute_error < 0.005
    assert found.total_ofu < 0.005
    assert found.held < 0.02
    assert found.ofu < 0.005
    assert found.mfu < 0.005


@pytest.mark.parametrize(
    "name", ["llama-70b", "moe-pretrain", "recompute-13b", "robot-vla", "chat-serving"]
)
def test_a_jobs_gpu_hours_and_ratios_are_true(reported: Reported, name: str) -> None:
    row, truth = row_of(reported, name)
    assert row.held_gpu_hours == pytest.approx(truth["held_gpu_seconds"] / 3600, rel=0.02)
    assert row.ofu == pytest.approx(truth["ofu"], abs=0.005)
    assert row.gpus == pytest.approx(truth["gpus"], rel=0.02)
    if truth["reported_mfu"] is not None:
        assert row.mfu == pytest.approx(truth["reported_mfu"], abs=0.005)


@pytest.mark.parametrize("name", ["llama-70b", "straggler", "chat-serving", "notebook"])
def test_a_jobs_losses_are_true(reported: Reported, name: str) -> None:
    row, truth = row_of(reported, name)
    assert row.observed_gpu_hours
    for part, share in truth["lost"].items():
        hours = getattr(row, f"lost_{part}_gpu_hours") or 0.0
        assert hours / row.observed_gpu_hours == pytest.approx(share, abs=0.01), part


def test_a_job_that_holds_gpus_and_does_nothing_is_idle(reported: Reported) -> None:
    row, truth = row_of(reported, "notebook")
    assert row.ofu == pytest.approx(0.0, abs=0.001)
    assert row.idle_gpu_hours == pytest.approx(truth["held_gpu_seconds"] / 3600, rel=0.05)
    assert sum(row.idle_gpu_hours for row in reported[0].jobs) < 1.1 * row.idle_gpu_hours


def test_gpus_are_known_by_model(reported: Reported) -> None:
    report, _ = reported
    installed = next(step.gpu_hours for step in report.funnel if step.name == "installed")
    assert installed == pytest.approx(24 * (8 * 8 + 2 * 4 + 2 * 4))
    models = {row.job_name: row.model for row in report.jobs}
    assert models["llama-70b"] == models["chat-serving"] == "NVIDIA H100 80GB HBM3"
    assert models["notebook"] == "NVIDIA A100-SXM4-40GB"
