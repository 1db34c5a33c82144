"""`fleet simulate`: serve a simulated fleet whose truth is known."""

from __future__ import annotations

import datetime
import os
import signal
import time
from pathlib import Path

import click

from ofu_exporter.cli.answers import say
from ofu_exporter.cli.fleet_changes import changes
from ofu_exporter.cli.fleet_digest import digest
from ofu_exporter.cli.fleet_job import job
from ofu_exporter.cli.fleet_mcp import mcp
from ofu_exporter.cli.fleet_report import report
from ofu_exporter.cli.help import SubjectGroup
from ofu_exporter.cli.option_types import option
from ofu_exporter.errors import ConfigError

FASTEST = 10_000.0
WHOLE_MINUTE = click.DateTime(["%Y-%m-%dT%H:%M%z", "%Y-%m-%dT%H:%M:00%z"])


@click.group(cls=SubjectGroup)
def fleet() -> None:
    """Report on many nodes at once, or simulate them."""


@fleet.command()
@click.argument("spec", type=click.Path(path_type=Path))
@option("--listen", "Address to serve on.", default="127.0.0.1:9848", show_default=True)
@option("--speed", "Simulated seconds per real second.", default=1.0, show_default=True)
@option(
    "--start",
    "When the fleet begins: 2025-08-27T00:00Z; default: now.",
    WHOLE_MINUTE,
    metavar="TIME",
)
def simulate(spec: Path, listen: str, speed: float, start: datetime.datetime | None) -> None:
    """Serve the pages of all nodes of a simulated fleet.

    SPEC is a YAML file, or a fleet that is shipped: month, paper, small.
    """
    from ofu_exporter.fleet.reports.figures import counted
    from ofu_exporter.fleet.simulation.app import FleetApp, FleetClock, serve
    from ofu_exporter.fleet.simulation.fleet import fleet_of
    from ofu_exporter.fleet.simulation.spec import read_spec
    from ofu_exporter.serving import listeners

    if not 0 < speed <= FASTEST:
        raise ConfigError(f"--speed: {speed:g} is not between 0 and {FASTEST:g}")
    simulated = fleet_of(read_spec(spec))
    try:
        listener = listeners.listen(listen)
    except ValueError as error:
        raise ConfigError(f"--listen: {error}") from error
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    url = f"http://{listeners.shown_address(listener)}"
    count = f"{counted(len(simulated.nodes), 'node')}, {counted(len(simulated.jobs), 'job')}"
    say(f"A simulated fleet, no GPU is measured: {count}.")
    say(f"Targets: {url}/sd   Pages: {url}/nodes/NAME/metrics")
    begin = start.timestamp() if start else time.time() // 60 * 60
    serve(FleetApp(simulated, FleetClock(begin, speed)), listener)


def _end(*_: object) -> None:
    """End the process with 0, whatever is under way.

    The simulator has nothing to save, a page may take long to compute, and a thousand scrapes may be waiting.
    """
    os._exit(0)


for command in (report, changes, job, digest, mcp):
    fleet.add_command(command)
