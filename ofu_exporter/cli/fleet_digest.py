"""`fleet digest`: tells every user or account of their own jobs, in files, or by mail and chat."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from ofu_exporter.cli.answers import say
from ofu_exporter.cli.fleet_report import (
    EXIT_INCOMPLETE,
    NAMES_OF,
    PRICES,
    TARGET,
    say_nothing_found,
)
from ofu_exporter.cli.fleet_server import asked_server, server_options
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import FILE, flag, option
from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.result import DigestBy
from ofu_exporter.values.text import shown_json

if TYPE_CHECKING:
    from ofu_exporter.fleet.digest.config_file import DigestConfig
    from ofu_exporter.fleet.digest.delivery import DigestFate, DigestSender
    from ofu_exporter.fleet.digest.digests import DigestSource
    from ofu_exporter.fleet.digest.result import Digest


READ = "To read them: --output FOLDER writes a text and a page of each; --only NAME limits it."


@click.command(
    cls=SubjectCommand,
    short_help="Tell each user or account about their own jobs.",
    context_settings={"default_map": {"since": "7d"}},
    common="server since until by config target only output send as_json",
)
@server_options
@option(
    "--by",
    "Who gets a digest.",
    click.Choice(get_args(DigestBy)),
    default="user",
    show_default=True,
)
@option("--config", "YAML: exemptions, targets, how to send.", FILE)
@PRICES
@TARGET
@option("--only", "Only these users or accounts. Repeatable.", metavar="NAME", multiple=True)
@option(
    "--output",
    "Folder for a text file and a page of each digest.",
    click.Path(path_type=Path),
    metavar="FOLDER",
)
@flag("--send", "Send the digests. Without it nothing leaves this machine.")
@option(
    "--json", "A line of JSON for each digest, for a program.", parameter="as_json", is_flag=True
)
def digest(**options: Any) -> None:
    """Tell every user, or account, of their own jobs: GPU-hours, OFU, waste, and what to do.

    Exit codes: 3 no data at all, or nobody answers; 4 a part of the time could not be read, or a digest did not go
    out, as the output says.
    """
    from ofu_exporter.fleet.digest.config_file import DigestConfig, read_config
    from ofu_exporter.fleet.digest.delivery import DigestSender
    from ofu_exporter.fleet.digest.digests import digests

    config = DigestConfig() if options["config"] is None else read_config(options["config"])
    sender = None if config.send is None else DigestSender(config.send, config.most_jobs)
    if options["send"] and sender is None:
        raise ConfigError("--send needs `send` in the file of --config")
    source = read_source(options, config)
    if not source.report.jobs and not source.report.clusters:
        say_nothing_found(source.report, NAMES_OF["agents"])
    chosen = _only(digests(source, options["by"], config), options["only"])
    faults = not source.report.is_sound
    faults |= _written(chosen, options["output"], config.most_jobs)
    faults |= _sent(chosen, sender, options)
    sys.exit(EXIT_INCOMPLETE if faults else 0)


def read_source(options: dict[str, Any], config: DigestConfig) -> DigestSource:
    from ofu_exporter.fleet.actions.kinds import OF_JOBS
    from ofu_exporter.fleet.changes.report import changes_report, collect
    from ofu_exporter.fleet.digest.digests import DigestSource
    from ofu_exporter.fleet.digest.signs import read_signs
    from ofu_exporter.fleet.history.history import read_history
    from ofu_exporter.fleet.history.prices import read_prices
    from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report, rated_jobs
    from ofu_exporter.fleet.reports.periods import with_periods
    from ofu_exporter.fleet.whole_report import LEAST_FACTOR

    prices = config.prices if options["prices"] is None else read_prices(options["prices"])
    wanted = ReportOptions(options["by"], prices, options["target"])
    with asked_server(options) as (reader, times):
        history = read_history(reader, *times)
        signs = read_signs(reader, history, config.exempt.dram_busy is not None)
        jobs = rated_jobs(history, wanted)
        collected = collect(reader, history, [job.row for job in jobs], OF_JOBS)
    report = with_periods(fleet_report(history, wanted, reader, jobs), ())
    changes = changes_report(collected, report, LEAST_FACTOR, OF_JOBS)
    report = report.model_copy(update={"changes": changes})
    return DigestSource(report, signs, history.mark)


def _only(digests: Sequence[Digest], names: Sequence[str]) -> list[Digest]:
    if unknown := {*names} - {each.name for each in digests}:
        raise ConfigError(f"--only: no job of {', '.join(sorted(unknown))} in this time")
    return [each for each in digests if not names or each.name in names]


def _written(digests: Sequence[Digest], folder: Path | None, most_jobs: int) -> bool:
    """Write the files; whether one could not be written."""
    from ofu_exporter.fleet.digest.text import write_digests

    if folder is None:
        return False
    files = list(write_digests(digests, folder, most_jobs))
    faults = [each for each in files if each.fault is not None]
    say(f"{len(files) - len(faults)} files in {folder}")
    for each in faults:
        say(f"ofu-exporter: not written: {each.path}: {each.fault}", err=True)
    return bool(faults)


def _sent(digests: Sequence[Digest], sender: DigestSender | None, options: dict[str, Any]) -> bool:
    """Send, or say what would be sent; whether one was not sent."""
    from ofu_exporter.fleet.digest.delivery import delivered, planned
    from ofu_exporter.fleet.digest.text import subject

    if options["send"] and sender is not None:
        return _listed(delivered(digests, sender))
    if options["as_json"] or sender is None:
        for each in digests:
            say(shown_json(each.model_dump_json()) if options["as_json"] else subject(each))
        if not options["as_json"] and options["output"] is None:
            say(READ, err=True)
        return False
    say("A dry run: nothing was sent. --send would send this:")
    is_faulty = _listed(planned(digests, sender))
    if options["output"] is None:
        say(READ, err=True)
    return is_faulty


def _listed(fates: Iterable[DigestFate]) -> bool:
    """A line for each digest; whether one was not sent, which standard error names."""
    from ofu_exporter.fleet.digest.text import subject

    faults: list[str] = []
    for each in fates:
        to = each.to or "nobody"
        say(f"{each.fate}: {to}: {subject(each.digest)}")
        if each.fate == "not sent":
            faults.append(f"{each.digest.name}: not sent by {to}: {each.why}")
    for fault in faults:
        say(f"ofu-exporter: {fault}", err=True)
    return bool(faults)
