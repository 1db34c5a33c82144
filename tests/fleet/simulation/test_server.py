"""The server within the process says what is true of a fleet, and what a real Prometheus says of the same one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history import progress_reader, queries
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report
from ofu_exporter.fleet.reports.result import FleetReport, JobRow
from ofu_exporter.fleet.simulation.server import SimulatedServer
from tests.helpers import fleet_truth
from tests.helpers.fleets import BEGIN, fleet
from tests.helpers.simulated_pages import scraped
from tests.helpers.stored_fleet import read_in, record, stored

HALF_A_DAY = """
length: 12h
cluster: test
nodes:
  - {name: n, count: 3, model: H100, gpus: 8, partition: batch}
jobs:
  - {name: honest, users: [ada], account: physics, gpus: 8, mfu: 0.40,
     report: {every: 10m, framework: megatron, step: 30}}
  - {name: smaller, users: [ada], gpus: 1, mfu: 0.20, report: {every: 5m}}
  - {name: wrong, users: [grace], account: ml, gpus: 4, start: 90m, mfu: 0.30,
     report: {mistake: sparse_peak}}
  - {name: notebook, users: [marie], gpus: 2, start: 2h, lasts: 7h, work: idle}
  - {name: crashing, users: [eve], gpus: 4, mfu: 0.25, crashes: {every: 3h, pause: 4m}}
  - {name: chat, users: [eve], gpus: 1, ofu: 0.2, work: inference,
     watts: 400, serves: {model: m, role: decode, tokens: {prompt: 100, cached: 40, generation: 60}, memory: 0.8}}
"""
PRICE = 2.5
HOURS = 4
NEAR = 0.03
"""A card whose clock is 0.6 % above the others' has 2.3 % more of what the clock lost."""
LOOKS = 1.0
"""GPU-hours of 96 by which free GPUs are off in Prometheus, which looks every five minutes at which have a job."""


def report_of(reader: ChunkReader, hours: int = 12) -> FleetReport:
    history = read_history(reader, BEGIN, BEGIN + hours * HOUR)
    return fleet_report(history, ReportOptions("user", Prices(gpu_hour={"*": PRICE})), reader)


def test_every_number_of_a_job_is_true(tmp_path: Path) -> None:
    made = fleet(HALF_A_DAY, tmp_path)
    report = report_of(ChunkReader(SimulatedServer(made, BEGIN)))
    assert report.missing == []
    assert report.headline.startswith("SIMULATED, no GPU was measured. ")
    found = fleet_truth.misses(report, {job["job_id"]: job for job in fleet_truth.facts(made)})
    assert found.jobs == found.flagged_wrongly == 0
    assert found.held < 1e-9
    assert found.ofu < 1e-6
    assert found.mfu < 0.002
    wrong = next(row for row in report.jobs if row.job_name == "wrong")
    assert (wrong.verdict, wrong.cause) == ("mfu_below_ofu", "sparse_peak")


def test_what_no_job_has_is_no_series_and_other_steps_are_refused(tmp_path: Path) -> None:
    server = SimulatedServer(fleet(HALF_A_DAY, tmp_path), BEGIN)
    assert server.instant("up") == []
    assert server.steps(queries.GAINED.recorded, BEGIN, BEGIN + 3 * HOUR, HOUR) == []
    with pytest.raises(QueryError, match="whole hours alone"):
        server.steps(queries.TARGET, BEGIN, BEGIN + HOUR, 60.0)


def test_a_job_that_never_restarts_comes_two_steps_further_a_minute(tmp_path: Path) -> None:
    server = SimulatedServer(fleet(HALF_A_DAY, tmp_path), BEGIN)
    (steps,) = server.steps(progress_reader.STEP.recorded, BEGIN, BEGIN + 12 * HOUR, HOUR)
    assert {later - step for step, later in pairwise(steps.values)} == {60 * 2}


@pytest.mark.slow
@pytest.mark.prometheus
def test_a_real_prometheus_says_the_same_of_the_same_fleet(tmp_path: Path) -> None:
    """By what our recording rules make of the agents' pages."""
    made = fleet(HALF_A_DAY.replace("length: 12h", f"length: {HOURS}h\ninterval: 30"), tmp_path)
    server = SimulatedServer(made, BEGIN)
    read_in(tmp_path, scraped(made, BEGIN, 60))
    record(tmp_path, BEGIN, BEGIN + HOURS * HOUR, " ".join(server.series))
    with stored(tmp_path) as prometheus:
        client = PrometheusClient(prometheus.url)
        expected = report_of(ChunkReader(client), HOURS)
        client.close()
    found = report_of(ChunkReader(server), HOURS)
    assert expected.missing == found.missing == []
    for row, other in zip(by_id(found), by_id(expected), strict=True):
        assert numbers(row) == pytest.approx(numbers(other), rel=NEAR, abs=0.2), row.job_name
        for name in ("job_name", "user", "account", "partition", "framework", "verdict", "cause"):
            assert getattr(row, name) == getattr(other, name), (row.job_name, name)
    for step, other_step in zip(found.funnel, expected.funnel, strict=True):
        assert step.gpu_hours == pytest.approx(other_step.gpu_hours, rel=0.02, abs=LOOKS), step.name


def by_id(report: FleetReport) -> list[JobRow]:
    return sorted(report.jobs, key=lambda row: row.job_id)


def numbers(row: JobRow) -> dict[str, float]:
    """All that a row has: hours and ratios in percent."""
    values = row.model_dump()
    return {
        name: 100 * value if abs(value) <= 1 else value
        for name, value in values.items()
        if isinstance(value, float)
    }
