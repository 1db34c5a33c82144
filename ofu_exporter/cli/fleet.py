"""`fleet simulate`: serve a simulated fleet whose truth is known, or write its history."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ofu_exporter.cli.fleet_report import report
from ofu_exporter.errors import ConfigError


@click.group()
def fleet() -> None:
    """What concerns many nodes at once."""


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--listen: {listen!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


@fleet.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--listen", default="127.0.0.1:9848", show_default=True, help="Address to serve on.")
@click.option("--speed", default=1.0, show_default=True, help="Seconds of the fleet in one second.")
def simulate(spec: Path, listen: str, speed: float) -> None:
    """Serve the pages of all nodes of the fleet in SPEC, a YAML file."""
    from ofu_exporter.fleet.simulation import app, spec_file
    from ofu_exporter.fleet.simulation.fleet import fleet_of

    host, port = _address(listen)
    if not 0 < speed <= 10_000:
        raise ConfigError(f"--speed: {speed:g} is not between 0 and 10000")
    made = fleet_of(spec_file.read(spec))
    clock = app.FleetClock(time.time() // 60 * 60, speed)
    click.echo(
        f"Simulated fleet, no GPU is measured: {len(made.nodes)} nodes, {len(made.jobs)} jobs. "
        f"Targets: http://{listen}/sd"
    )
    app.serve(made, clock, host, port)


fleet.add_command(report)
