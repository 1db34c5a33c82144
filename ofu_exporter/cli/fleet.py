"""`fleet simulate`: serve a simulated fleet whose truth is known, or write its history."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ofu_exporter.cli.fleet_changes import changes
from ofu_exporter.cli.fleet_report import report
from ofu_exporter.errors import ConfigError

if TYPE_CHECKING:
    from ofu_exporter.fleet.simulation.fleet import SimulatedFleet

UTC = datetime.timezone.utc
FASTEST = 10_000.0


class _Time(click.ParamType[datetime.datetime]):
    """A whole minute in UTC, as in 2025-08-27T00:00Z."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        try:
            found = datetime.datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2025-08-27T00:00Z", param, ctx)
        zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
        if zoned.timestamp() % 60:
            self.fail(f"{value!r} is not a whole minute", param, ctx)
        return zoned


@click.group()
def fleet() -> None:
    """What concerns many nodes at once."""


@fleet.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--listen", default="127.0.0.1:9848", show_default=True, help="Address to serve on.")
@click.option("--speed", default=1.0, show_default=True, help="Seconds of the fleet in one second.")
@click.option("--start", type=_Time(), help="When the fleet begins, instead of what SPEC says.")
@click.option("--truth", type=click.Path(path_type=Path), help="Folder to write the truth into.")
@click.option(
    "--history", type=click.Path(path_type=Path), help="Write history here; serve nothing."
)
@click.option("--from", "begin", type=_Time(), help="Go on with the history from then.")
def simulate(
    spec: Path,
    listen: str,
    speed: float,
    start: datetime.datetime | None,
    truth: Path | None,
    history: Path | None,
    begin: datetime.datetime | None,
) -> None:
    """Serve the pages of all nodes of the fleet in SPEC, a YAML file, or write its history."""
    from ofu_exporter.fleet.simulation import spec_file, truth_file
    from ofu_exporter.fleet.simulation.fleet import fleet_of

    if not 0 < speed <= FASTEST:
        raise ConfigError(f"--speed: {speed:g} is not between 0 and {FASTEST:g}")
    if begin is not None and history is None:
        raise ConfigError("--from: is of --history, which is not given")
    file = spec_file.read(spec)
    start = start or (file.spec.start if history is not None else None)
    if start is None:
        if history is not None:
            raise ConfigError(f"fleet {spec}: history needs a start, in the file or as --start")
        start = datetime.datetime.fromtimestamp(time.time() // 60 * 60, UTC)
    made = fleet_of(file)
    unix = start.timestamp()
    if truth is not None:
        truth_file.write(made, unix, truth)
    click.echo(
        f"A simulated fleet, no GPU is measured: {len(made.nodes)} nodes, {len(made.jobs)} jobs."
    )
    if history is not None:
        _write(made, unix, history, begin)
    else:
        _serve(made, unix, listen, speed)


def _write(
    made: SimulatedFleet, unix: float, folder: Path, begin: datetime.datetime | None
) -> None:
    from ofu_exporter.fleet.simulation import history

    first = 0 if begin is None else int((begin.timestamp() - unix) // 60)
    if not 0 <= first <= made.spec.length:
        raise ConfigError("--from: is not within the time of the fleet")
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for written in history.write(made, unix, folder, first):
        total += written.samples
        click.echo(f"{written.path}: {written.samples} samples")
    click.echo(f"{total} samples")


def _serve(made: SimulatedFleet, unix: float, listen: str, speed: float) -> None:
    from ofu_exporter.fleet.simulation import app

    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--listen: {listen!r} is not HOST:PORT")
    click.echo(f"Targets: http://{listen}/sd   Pages: http://{listen}/nodes/NAME/metrics")
    app.serve(made, app.FleetClock(unix, speed), host.strip("[]"), int(port))


fleet.add_command(report)
fleet.add_command(changes)
