"""What simulated jobs serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation.server import SimulatedServer
from tests.fleet.simulation.test_server import HALF_A_DAY, PRICE, report_of
from tests.helpers.fleets import BEGIN, fleet


def assert_costs_are_true(report: FleetReport) -> None:
    """Of the job chat: half a day has the mean load of the day, (0.25 + 1) / 2; at full load it decodes 60 tokens/s."""
    (chat,) = (row for row in report.jobs if row.job_name == "chat")
    a_second = 60 * 0.625
    assert chat.generation_tokens == pytest.approx(a_second * 12 * HOUR, rel=0.01)
    assert chat.cached_tokens == pytest.approx(40 * 0.625 * 12 * HOUR, rel=0.01)
    assert chat.joules_per_token == pytest.approx(400 / a_second, rel=0.01)
    assert chat.serving_kwh == pytest.approx(0.4 * 12, rel=0.01)
    assert chat.cost_per_million_generation_tokens == pytest.approx(
        1e6 * PRICE / HOUR / a_second, rel=0.01
    )
    assert chat.memory_ratio == pytest.approx(0.8, rel=0.01)
    assert chat.recoverable_gpu_hours == pytest.approx(0, abs=0.01)
    assert report.total.joules_per_token == chat.joules_per_token


def test_what_a_token_costs_is_true(tmp_path: Path) -> None:
    made = fleet(HALF_A_DAY, tmp_path)
    assert_costs_are_true(report_of(ChunkReader(SimulatedServer(made, BEGIN))))
