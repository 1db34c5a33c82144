"""Makes the page of `demo --fleet`: the fleet report of a made-up month, from data made in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ofu_exporter.cli.fleet_report import rendered, write_answer

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ofu_exporter.fleet.reports.result import FleetReport
    from ofu_exporter.fleet.simulation.fleet import SimulatedFleet

PATH = "/fleet-report"
__all__ = ["PATH", "month_page", "month_report", "route_of", "write_answer"]
_DAY = 86400.0
_MONTH = 30 * _DAY


def month_report(now: float) -> FleetReport:
    """What is reported of the 30 days before the last midnight (UTC), by the code that reports on real fleets."""
    from ofu_exporter.fleet.chunks import ChunkReader
    from ofu_exporter.fleet.history.history import read_history
    from ofu_exporter.fleet.history.prices import Prices
    from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report
    from ofu_exporter.fleet.reports.periods import period_of
    from ofu_exporter.fleet.simulation.server import SimulatedServer
    from ofu_exporter.fleet.whole_report import WholeReport, whole_report

    fleet, end = _month(), now // _DAY * _DAY
    server = SimulatedServer(fleet, end - 60.0 * fleet.spec.length)
    reader = ChunkReader(server, hours_at_once=fleet.spec.length // 60)
    prices = Prices(currency="EUR", gpu_hour={"*": 2.10})
    options = ReportOptions("user", prices)
    earlier = read_history(reader, end - 2 * _MONTH, end - _MONTH)
    before = [period_of(fleet_report(earlier, options, reader))]
    return whole_report(reader, (end - _MONTH, end), WholeReport(options, before=before))


def month_page(now: float) -> bytes:
    """The report as HTML. `now` in Unix seconds."""
    return rendered(month_report(now), "html", 0)


def _month() -> SimulatedFleet:
    from ofu_exporter.fleet.simulation.fleet import fleet_of
    from ofu_exporter.fleet.simulation.spec import read_spec

    return fleet_of(read_spec(Path("month")))


def route_of(page: bytes) -> APIRouter:
    """What serves the page beside those of a node."""
    from fastapi import APIRouter
    from fastapi.responses import HTMLResponse

    async def answer() -> HTMLResponse:
        return HTMLResponse(page, headers={"x-content-type-options": "nosniff"})

    router = APIRouter(include_in_schema=False)
    router.add_api_route(PATH, answer)
    return router
