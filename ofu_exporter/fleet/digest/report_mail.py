"""Sends the report over a fleet as digests are sent: a few lines, and in mail the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.config_file import SendConfig
from ofu_exporter.fleet.digest.delivery import TO, AppriseSender, Message, url_of
from ofu_exporter.fleet.reports import figures
from ofu_exporter.fleet.reports.result import ActionRow, FleetReport
from ofu_exporter.values.text import shown


class ReportFate(NamedTuple):
    to: str
    why: str
    """Why it was not sent; empty where it was."""


class ReportSender:
    """Raises ConfigError for a URL that cannot be used, or that needs addresses where `report_to` has none."""

    def __init__(self, config: SendConfig) -> None:
        url = url_of(config)
        if (TO in url) != bool(config.report_to):
            raise ConfigError(f"send: {TO} in the URL needs `report_to`, and this needs it")
        self._addresses = config.report_to or ("",)
        self._sender = AppriseSender(url)

    def send(self, report: FleetReport, page: Path) -> Iterator[ReportFate]:
        """Send to every address; a failure stops no other."""
        attached = page if self._sender.is_mail else None
        message = Message(subject(report), body(report, page), attached=attached)
        for address in self._addresses:
            yield ReportFate(self._sender.place(address), self._sender.deliver(message, address))


def subject(report: FleetReport) -> str:
    mark = "[SIMULATED] " if report.mark else ""
    days = f"{report.time.start[:10]} to {report.time.end[:10]}"
    return f"{mark}GPU fleet, {days}: OFU {figures.share(report.ofu)}"


def body(report: FleetReport, page: Path) -> str:
    """What was, what to do first, and where the page is."""
    todo = [
        f"{at}. {row.who} {row.what} ({_gain(row, report.currency)}): {row.why} {row.next}"
        for at, row in enumerate(report.actions, 1)
    ]
    lines = [report.headline, "", *(["Do first:", *todo, ""] if todo else []), f"Page: {page}"]
    return "\n".join(shown(line) for line in lines)


def _gain(row: ActionRow, currency: str) -> str:
    if row.gpu_hours is None:
        return row.kind.replace("_", " ")
    gpu_hours = f"{figures.hours(row.gpu_hours)} GPU-hours"
    return gpu_hours if row.cost is None else f"{figures.money(row.cost, currency)}, {gpu_hours}"
