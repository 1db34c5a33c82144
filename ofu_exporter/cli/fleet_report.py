"""`fleet report`: where the GPU-hours of a fleet went, from the Prometheus that has its history."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import click

from ofu_exporter.cli.answers import say
from ofu_exporter.cli.fleet_server import asked_server, server_or_hosts_options
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import FILE, RATIO, flag, option
from ofu_exporter.cli.report_folder import ReportFolder, folder_options
from ofu_exporter.cli.report_hosts import hosts_options, hosts_report, named_hosts
from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.fleet.reports.result import By
from ofu_exporter.values.text import shown_json

if TYPE_CHECKING:
    from ofu_exporter.fleet.changes_result import ChangesReport
    from ofu_exporter.fleet.history.prices import Prices
    from ofu_exporter.fleet.reports.result import FleetReport
    from ofu_exporter.fleet.whole_report import WholeReport

FORMATS = ("text", "html", "json", "csv", "markdown", "focus", "parquet")
WITH_CHANGES = ("text", "html", "markdown", "json")
NAMES_OF = {"agents": "ofu-exporter", "dcgm-exporter": "dcgm-exporter"}
EXIT_INCOMPLETE = 4
EXIT_NOTHING = 3
PRICES = option("--prices", "YAML: price of a GPU-hour by model.", click.Path(path_type=Path))
TARGET = option(
    "--target", "OFU that waste is counted against; default: the recording rules' own.", RATIO
)
OUTPUT = option(
    "--output", "File to write, instead of standard output.", click.Path(path_type=Path)
)


@click.command(
    cls=SubjectCommand,
    short_help="Where the GPU-hours went, what they cost, what to do first.",
    common="server hosts since source by prices target format_ output folder",
)
@server_or_hosts_options
@hosts_options
@option(
    "--from",
    "Exporter whose series to read.",
    click.Choice(("agents", "dcgm-exporter")),
    parameter="source",
    default="agents",
    show_default=True,
)
@option(
    "--by",
    "What the tables have a row for.",
    click.Choice(get_args(By)),
    default="user",
    show_default=True,
)
@PRICES
@TARGET
@option(
    "--changes",
    "Answer of `fleet changes --format json`, instead of looking for changes.",
    FILE,
)
@flag("--no-changes", "Look for no changes: a shorter report, and fewer queries.")
@option(
    "--format",
    "Form of the report.",
    click.Choice(FORMATS),
    parameter="format_",
    default="text",
    show_default=True,
)
@option("--rows", "Most rows of a table in text.", click.IntRange(1), default=20, show_default=True)
@OUTPUT
@folder_options
def report(
    format_: str,
    rows: int,
    changes: Path | None,
    no_changes: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Where the GPU-hours went, what changed, what to do first, and what it cost.

    Exit codes: 3 no data at all, or nobody answers; 4 a part of the time could not be read, or
    jobs held more GPUs than there are, as the report says.
    """
    from ofu_exporter.fleet.reports.fleet_report import ReportOptions
    from ofu_exporter.fleet.whole_report import WholeReport

    prices = _prices(options["prices"], options["config"])
    place = ReportFolder(options)
    if place.is_wanted:
        format_ = _of_folder(format_, output)
    changed = _changed(changes, no_changes, format_)
    wanted = ReportOptions(options["by"], prices, options["target"])
    looks = not no_changes and format_ in WITH_CHANGES
    answer = read_report(options, WholeReport(wanted, options["source"], changed, looks))
    if not answer.jobs and not answer.clusters:
        say_nothing_found(answer, NAMES_OF[options["source"]])
    content = rendered(answer, format_, rows)
    is_done = place.take(answer, content) if place.is_wanted else write_answer(content, output)
    sys.exit(0 if answer.is_sound and is_done else EXIT_INCOMPLETE)


def _prices(path: Path | None, config: Path | None) -> Prices:
    """Those of --prices, else those of the digests' configuration. Raises ConfigError."""
    from ofu_exporter.fleet.digest import config_file
    from ofu_exporter.fleet.history.prices import Prices, read_prices

    if path is not None:
        return read_prices(path)
    return Prices() if config is None else config_file.read_config(config).prices


def _of_folder(format_: str, output: Path | None) -> str:
    """The format of what a folder keeps. Raises ConfigError where another is asked for, or another place."""
    if output is not None or format_ not in ("text", "html"):
        raise ConfigError(
            "--folder keeps html, and goes with neither --output nor another --format"
        )
    return "html"


def read_report(options: dict[str, Any], wanted: WholeReport) -> FleetReport:
    from ofu_exporter.fleet.whole_report import whole_report

    if hosts := named_hosts(options):
        if wanted.changes is not None:
            raise ConfigError("--changes goes with --prometheus: agents have no history")
        return hosts_report(hosts, options, wanted.options)
    with asked_server(options) as (reader, times):
        return whole_report(reader, times, wanted)


def _changed(path: Path | None, is_unwanted: bool, format_: str) -> ChangesReport | None:
    """What changed, as the file has it. Raises ConfigError."""
    from ofu_exporter.fleet.changes_result import read_changes

    if path is None:
        return None
    if is_unwanted:
        raise ConfigError("--changes and --no-changes exclude each other")
    if format_ not in WITH_CHANGES:
        raise ConfigError(f"--changes goes with --format {', '.join(WITH_CHANGES)}")
    return read_changes(path)


def rendered(answer: FleetReport, format_: str, most_rows: int) -> bytes:
    from ofu_exporter.fleet.pages import rows

    if format_ == "parquet":
        return rows.as_parquet(answer)
    if format_ == "focus":
        return rows.as_focus(answer).encode()
    if format_ == "csv":
        return rows.as_csv(answer).encode()
    if format_ == "json":
        return shown_json(answer.model_dump_json(indent=2)).encode() + b"\n"
    return _for_people(answer, format_, most_rows).encode(errors="backslashreplace") + b"\n"


def _for_people(answer: FleetReport, format_: str, most_rows: int) -> str:
    from ofu_exporter.fleet.changes import text as changes_text
    from ofu_exporter.fleet.pages import report_page, report_text

    changed = answer.changes
    if format_ == "html":
        return report_page.page(answer, changes_text.document(changed) if changed else None)
    changes = changes_text.document(changed, most_rows) if changed else None
    document = report_text.document(answer, changes, most_rows)
    return document.markdown() if format_ == "markdown" else document.plain()


def write_answer(content: bytes, output: Path | None) -> bool:
    """Write an answer, which is then done. Raises ConfigError for a file that cannot be written."""
    if output is None:
        click.echo(content, nl=False)
        return True
    with file_errors(f"--output: {output}"):
        output.write_bytes(content)
    return True


def say_nothing_found(answer: FleetReport | ChangesReport, source: str) -> NoReturn:
    """Print why there may be nothing, on standard error; exits with EXIT_NOTHING."""
    for row in answer.missing[:5]:
        say(f"ofu-exporter: not read: {row.what}: {row.why}", err=True)
    times = f"from {answer.time.start} to {answer.time.end}"
    say(
        f"ofu-exporter: {answer.server} could not tell what it has {times}"
        if answer.missing
        else f"ofu-exporter: {answer.server} has no series of {source} {times}. Check --since and --tenant, that it "
        f"scrapes {source} (docs/metrics.md; for dcgm-exporter: fleet report --from dcgm-exporter), and that it keeps "
        "data that long. Five minutes after the first scrape there is a report",
        err=True,
    )
    sys.exit(EXIT_NOTHING)
