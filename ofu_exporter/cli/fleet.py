"""`fleet simulate`: serve a simulated fleet whose truth is known, or write its history."""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.fleet_changes import changes
from ofu_exporter.cli.fleet_digest import digest
from ofu_exporter.cli.fleet_job import job
from ofu_exporter.cli.fleet_mcp import mcp
from ofu_exporter.cli.fleet_report import report
from ofu_exporter.cli.help import SubjectGroup
from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.support.extras import install_command

if TYPE_CHECKING:
    from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
    from ofu_exporter.fleet.simulation.spec import FleetSpec

UTC = datetime.timezone.utc
FASTEST = 10_000.0
EXIT_STOPPED = 1


class _Time(click.ParamType[datetime.datetime]):
    """A whole minute in UTC, as in 2025-08-27T00:00Z, or now."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        if value == "now":
            return datetime.datetime.fromtimestamp(time.time() // 60 * 60, UTC)
        try:
            time_read = datetime.datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2025-08-27T00:00Z", param, ctx)
        zoned = time_read if time_read.tzinfo else time_read.replace(tzinfo=UTC)
        if zoned.timestamp() % 60:
            self.fail(f"{value!r} is not a whole minute", param, ctx)
        return zoned


@click.group(cls=SubjectGroup)
def fleet() -> None:
    """Report on many nodes at once, or simulate them."""


@fleet.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--listen", default="127.0.0.1:9848", show_default=True, help="Address to serve on.")
@click.option("--speed", default=1.0, show_default=True, help="Simulated seconds per real second.")
@click.option("--start", type=_Time(), help="When the fleet begins, instead of what SPEC says.")
@click.option(
    "--end", type=_Time(), help="When the fleet ends, instead of its start: a time, or now."
)
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    help="Folder to write history to, instead of serving.",
)
@click.option(
    "--from", "begin", type=_Time(), help="Time from which to continue a stopped history."
)
def simulate(spec: Path, **options: Any) -> None:
    """Serve the pages of all nodes of a simulated fleet, or write its history.

    SPEC is a YAML file, or a fleet that is shipped: paper, small.
    """
    from ofu_exporter.fleet.simulation.fleet import fleet_of
    from ofu_exporter.fleet.simulation.spec import read

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    speed, folder, begin = options["speed"], options["history"], options["begin"]
    if not 0 < speed <= FASTEST:
        raise ConfigError(f"--speed: {speed:g} is not between 0 and {FASTEST:g}")
    if begin is not None and folder is None:
        raise ConfigError("--from needs --history")
    file = read(spec)
    unix = _start(file.content, options["start"], options["end"], folder is None)
    simulated = fleet_of(file)
    click.echo(
        f"A simulated fleet, no GPU is measured: {len(simulated.nodes)} nodes, {len(simulated.jobs)} jobs."
    )
    if folder is not None:
        _write(simulated, unix, folder, begin)
    else:
        _serve(simulated, unix, options["listen"], speed)


def _start(
    spec: FleetSpec, start: datetime.datetime | None, end: datetime.datetime | None, is_live: bool
) -> float:
    """Unix time at which the fleet begins: live pages begin now, whatever the specification says."""
    if start is not None and end is not None:
        raise ConfigError("--start and --end: give one of them")
    if end is not None:
        return end.timestamp() - 60 * spec.length
    if start is not None:
        return start.timestamp()
    if is_live:
        return time.time() // 60 * 60
    if spec.start is None:
        raise ConfigError("--history needs --start or --end, or a start in SPEC")
    return spec.start.timestamp()


def _write(
    simulated: SimulatedFleet, unix: float, folder: Path, begin: datetime.datetime | None
) -> None:
    try:
        from ofu_exporter.fleet.simulation import history
    except ImportError as error:
        raise ConfigError(f"--history: {error}: {install_command('history')}") from error
    first = 0 if begin is None else int((begin.timestamp() - unix) // 60)
    if not 0 <= first <= simulated.spec.length:
        raise ConfigError("--from: not within the time of the fleet")
    with file_errors(f"--history: {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    total = 0
    go_on = history.stamp(unix + 60 * first)
    try:
        for written in history.write(simulated, unix, folder, first):
            total += written.samples
            go_on = written.go_on
            click.echo(f"{written.path}: {written.samples} samples")
    except KeyboardInterrupt:
        why = f"stopped; the files written are complete: continue with --from {go_on}"
        click.echo(f"ofu-exporter: {why}", err=True)
        sys.exit(EXIT_STOPPED)
    click.echo(f"{total} samples")


def _serve(simulated: SimulatedFleet, unix: float, listen: str, speed: float) -> None:
    from ofu_exporter.fleet.simulation import app

    served = app.FleetApp(simulated, app.FleetClock(unix, speed))
    address = f"http://{listen}"
    click.echo(f"Targets: {address}/sd   Pages: {address}/nodes/NAME/metrics")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        app.serve(served, listen)
    except ValueError as error:
        raise ConfigError(f"--listen: {error}") from error


def _end(*_: object) -> None:
    """End the process with 0, whatever is under way.

    The simulator has nothing to save, a page may take long to compute, and a thousand scrapes may be waiting.
    """
    os._exit(0)


for command in (report, changes, job, digest, mcp):
    fleet.add_command(command)
