"""A small simulated fleet that has some of everything, golden: agents' pages, and the report that it is read into."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.pages import report_text
from ofu_exporter.fleet.reports.fleet_report import ReportOptions
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation.agent import SimulatedAgent
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet, fleet_of
from ofu_exporter.fleet.simulation.server import SimulatedServer
from ofu_exporter.fleet.simulation.spec import read_spec
from ofu_exporter.fleet.whole_report import WholeReport, whole_report
from tests.helpers.fleets import BEGIN, HOUR, page
from tests.helpers.rounding import as_json, without_last_digits

NODES = (0, 2, 5, 8, 10)
"""With a job that over-reports, one that crashes, one that serves on instances of MIG, and the faults."""


@cache
def fleet() -> SimulatedFleet:
    return fleet_of(read_spec(Path("small")))


@cache
def report() -> FleetReport:
    reader = ChunkReader(SimulatedServer(fleet(), BEGIN))
    options = ReportOptions("user", Prices(currency="EUR", gpu_hour={"*": 2.5}))
    return whole_report(reader, (BEGIN, BEGIN + 24 * HOUR), WholeReport(options))


def pages() -> str:
    agents = [SimulatedAgent(fleet(), number, BEGIN, 7.2 * HOUR) for number in NODES]
    return "\n".join(
        f"--- {n}\n{page(each, 7.3 * HOUR)}" for n, each in zip(NODES, agents, strict=True)
    )


FORMS: dict[str, Callable[[], str]] = {
    "small-report.json": lambda: as_json(report()),
    "small-report.txt": lambda: report_text.document(report()).plain(),
    "small-pages.prom": lambda: re.sub(
        "(?m)^(#|.*build_info).*\n", "", without_last_digits(pages())
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_fleet_is_as_it_was(name: str, golden: Callable[[str, str], None]) -> None:
    """Regenerate with `pytest tests/fleet/simulation/test_golden_fleet.py --regenerate`."""
    golden(name, FORMS[name]())
