"""A small simulated fleet that has some of everything, golden: agents' pages, and the report that it is read into."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.digest.signs import read_signs
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.pages import report_text
from ofu_exporter.fleet.reports.fleet_report import ReportOptions
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.series import Series
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


class AskedServer(SimulatedServer):
    """Remembers what it is asked, with hours from the fleet's begin."""

    asked: ClassVar[dict[str, None]] = {}

    def instant(self, expression: str, at: float | None = None) -> list[Series]:
        self.asked[f"at {None if at is None else (at - BEGIN) / HOUR}: {expression}"] = None
        return super().instant(expression, at)

    def steps(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        hours = f"{(start - BEGIN) / HOUR} to {(end - BEGIN) / HOUR} by {step}"
        self.asked[f"{hours}: {expression}"] = None
        return super().steps(expression, start, end, step)


def questions() -> str:
    """What the report and digests ask, in their order."""
    report()
    reader = ChunkReader(AskedServer(fleet(), BEGIN))
    history = read_history(reader, BEGIN, BEGIN + 24 * HOUR)
    read_signs(reader, history, with_dram=True)
    return "\n".join(AskedServer.asked)


@cache
def report() -> FleetReport:
    reader = ChunkReader(AskedServer(fleet(), BEGIN))
    options = ReportOptions("user", Prices(currency="EUR", gpu_hour={"*": 2.5}))
    return whole_report(reader, (BEGIN, BEGIN + 24 * HOUR), WholeReport(options))


def pages() -> str:
    agents = [SimulatedAgent(fleet(), number, BEGIN, 7.2 * HOUR) for number in NODES]
    return "\n".join(
        f"--- {n}\n{page(each, 7.3 * HOUR)}" for n, each in zip(NODES, agents, strict=True)
    )


FORMS: dict[str, Callable[[], str]] = {
    "small-questions.txt": questions,
    "small-report.json": lambda: as_json(report()),
    "small-report.txt": lambda: report_text.document(report()).plain(),
    "small-pages.txt": lambda: re.sub(
        "(?m)^(#|.*build_info).*\n", "", without_last_digits(pages())
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_fleet_is_as_it_was(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, FORMS[name]())
