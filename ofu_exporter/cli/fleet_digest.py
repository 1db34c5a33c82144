"""`fleet digest`: tells every user or account of their own jobs, as files, by mail or to a webhook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from ofu_exporter.cli.fleet_report import (
    EXIT_INCOMPLETE,
    NAMES_OF,
    PRICES,
    TARGET,
    say_nothing_found,
)
from ofu_exporter.cli.fleet_server import (
    ProgressLine,
    asked_time,
    duration,
    open_client,
    server_options,
)
from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.result import DigestBy
from ofu_exporter.values.text import shown

if TYPE_CHECKING:
    from ofu_exporter.fleet.digest.config_file import DigestConfig
    from ofu_exporter.fleet.digest.delivery import DigestFate
    from ofu_exporter.fleet.digest.digests import DigestSource
    from ofu_exporter.fleet.digest.result import Digest
    from ofu_exporter.fleet.digest.sending import DigestSender
    from ofu_exporter.fleet.digest.signs import FleetSigns
    from ofu_exporter.fleet.parts import PartReader
    from ofu_exporter.fleet.prometheus import PrometheusClient
    from ofu_exporter.fleet.reports.fleet_history import FleetHistory

_FILE = click.Path(path_type=Path)


@click.command(context_settings={"default_map": {"since": "7d"}})
@server_options
@click.option("--by", type=click.Choice(get_args(DigestBy)), default="user", show_default=True)
@click.option(
    "--config", type=_FILE, metavar="FILE", help="YAML: exemptions, targets, mail, webhook."
)
@PRICES
@TARGET
@click.option(
    "--only", metavar="NAME", multiple=True, help="Only these users or accounts. Repeatable."
)
@click.option(
    "--output",
    type=_FILE,
    metavar="FOLDER",
    help="Folder for a text file and a page of each digest.",
)
@click.option(
    "--send", is_flag=True, help="Send the digests. Without it nothing leaves this machine."
)
@click.option(
    "--sent",
    type=_FILE,
    metavar="FILE",
    help="File that notes what was sent, so that nothing is sent twice.",
)
def digest(**options: Any) -> None:
    """Tell every user, or account, of their own jobs: GPU-hours, OFU, waste, and what to do.

    Exit codes: 3 no data at all, or nobody answers; 4 a part of the time could not be read, or a digest did not go
    out, as the output says.
    """
    from ofu_exporter.fleet.digest.config_file import DigestConfig, read
    from ofu_exporter.fleet.digest.digests import digests

    config = DigestConfig() if options["config"] is None else read(options["config"])
    if options["send"] and options["sent"] is None:
        raise ConfigError("--send needs --sent FILE, which notes what was sent")
    senders = _senders(config)
    if options["send"] and not senders:
        raise ConfigError("--send needs `mail` or `webhook` in the file of --config")
    source = read_source(options, config)
    if not source.report.jobs and not source.report.clusters:
        say_nothing_found(source.report, NAMES_OF["agents"])
    found = _only(digests(source, options["by"], config), options["only"])
    faults = bool(source.report.missing)
    faults |= _written(found, options["output"], config.most_jobs)
    faults |= _told(found, senders, options)
    sys.exit(EXIT_INCOMPLETE if faults else 0)


def read_source(options: dict[str, Any], config: DigestConfig) -> DigestSource:
    """Ask the server, and make the report of what it says."""
    from ofu_exporter.fleet.digest.digests import DigestSource
    from ofu_exporter.fleet.parts import PartReader
    from ofu_exporter.fleet.reports.fleet_report import HistorySource, ReportOptions, fleet_report
    from ofu_exporter.fleet.reports.prices import Prices, read_prices

    prices = Prices() if options["prices"] is None else read_prices(options["prices"])
    client = open_client(options)
    line = ProgressLine(options["progress"])
    reader = PartReader(line)
    try:
        history, signs = _read(client, reader, options, config)
    finally:
        line.end()
        client.close()
    wanted = ReportOptions(options["by"], prices, options["target"])
    come_by = HistorySource(client.shown_url, client.cost, reader.missing)
    return DigestSource(fleet_report(history, wanted, come_by), signs, history.mark)


def _read(
    client: PrometheusClient, reader: PartReader, options: dict[str, Any], config: DigestConfig
) -> tuple[FleetHistory, FleetSigns]:
    """The history of a report, and what else is known of its jobs."""
    from ofu_exporter.fleet.digest.signs import read_signs
    from ofu_exporter.fleet.reports.history import read_history

    history = read_history(client, reader, *asked_time(client, options))
    return history, read_signs(client, reader, history, config.exempt.dram_busy is not None)


def _senders(config: DigestConfig) -> list[DigestSender]:
    from ofu_exporter.fleet.digest.mail import MailSender
    from ofu_exporter.fleet.digest.webhook import WebhookSender

    found: list[DigestSender] = []
    if config.mail is not None:
        found.append(MailSender(config.mail, config.most_jobs))
    if config.webhook is not None:
        found.append(WebhookSender(config.webhook, config.most_jobs))
    return found


def _only(found: Sequence[Digest], names: Sequence[str]) -> list[Digest]:
    if unknown := {*names} - {each.name for each in found}:
        raise ConfigError(f"--only: no job of {', '.join(sorted(unknown))} in this time")
    return [each for each in found if not names or each.name in names]


def _written(found: Sequence[Digest], folder: Path | None, most_jobs: int) -> bool:
    """Write the files; whether one could not be written."""
    from ofu_exporter.fleet.digest.folder import write

    if folder is None:
        return False
    files = list(write(found, folder, most_jobs))
    faults = [each for each in files if each.fault is not None]
    click.echo(f"{len(files) - len(faults)} files in {shown(str(folder))}")
    for each in faults:
        click.echo(f"ofu-exporter: not written: {shown(str(each.path))}: {each.fault}", err=True)
    return bool(faults)


def _told(
    found: Sequence[Digest], senders: Sequence[DigestSender], options: dict[str, Any]
) -> bool:
    """Send, or say what would be sent; whether one did not go out."""
    from ofu_exporter.fleet.digest.delivery import delivered, planned
    from ofu_exporter.fleet.digest.sent_file import SentFile
    from ofu_exporter.fleet.digest.text import subject

    if not senders:
        for each in found:
            click.echo(subject(each))
        return False
    if not options["send"]:
        click.echo("A dry run: nothing was sent. --send would send this:")
        return _listed(planned(found, senders))
    if not found:
        return False
    notes = SentFile(options["sent"], _end_of(found[0]), duration(options["since"]) / 2)
    try:
        return _listed(delivered(found, senders, notes))
    finally:
        notes.close()
        for sender in senders:
            sender.close()


def _end_of(digest: Digest) -> float:
    from ofu_exporter.cli.fleet_server import instant

    return instant(digest.time.end)


def _listed(fates: Iterable[DigestFate]) -> bool:
    """A line for each digest; whether one did not go out, which standard error names."""
    from ofu_exporter.fleet.digest.text import subject

    faults: list[str] = []
    for each in fates:
        name, to = shown(each.digest.name), shown(each.to) or "nobody"
        click.echo(f"{each.fate}: {each.via} to {to}: {subject(each.digest)}")
        if each.is_fault:
            faults.append(f"{name}: {each.fate} by {each.via} to {to}: {each.why}")
    for fault in faults:
        click.echo(f"ofu-exporter: {shown(fault)}", err=True)
    return bool(faults)
