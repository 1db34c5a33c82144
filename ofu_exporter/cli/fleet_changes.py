"""`fleet changes`: what got slower or faster in a fleet, and which nodes are slow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from ofu_exporter.cli.fleet_report import (
    EXIT_INCOMPLETE,
    NAMES_OF,
    OUTPUT,
    say_nothing_found,
    write_answer,
)
from ofu_exporter.cli.fleet_server import asked_server, server_options
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import option
from ofu_exporter.fleet.changes_result import SeriesKind
from ofu_exporter.values.text import shown_json

if TYPE_CHECKING:
    from ofu_exporter.fleet.changes_result import ChangesReport

FORMATS = ("text", "json", "markdown")


@click.command(
    cls=SubjectCommand,
    short_help="What got slower or faster, since when; slow nodes.",
    common="server since until kinds least format_ rows output",
)
@server_options
@option(
    "--of",
    "Compare only these: jobs by name and user, GPU models, nodes, hours of one job. Repeatable.",
    click.Choice(get_args(SeriesKind)),
    parameter="kinds",
    multiple=True,
)
@option(
    "--least",
    "Smallest change to report, as a factor up or down.",
    click.FloatRange(1.0, 100.0),
    default=1.1,
    show_default=True,
    metavar="FACTOR",
)
@option(
    "--format",
    "Form of the answer.",
    click.Choice(FORMATS),
    parameter="format_",
    default="text",
    show_default=True,
)
@option("--rows", "Most rows of a table in text.", click.IntRange(1), default=20, show_default=True)
@OUTPUT
def changes(
    format_: str,
    rows: int,
    output: Path | None,
    kinds: tuple[SeriesKind, ...],
    least: float,
    **options: Any,
) -> None:
    """What got slower or faster, since when, how sure that is, and which nodes are slow.

    Exit codes: 3 no data at all, or nobody answers; 4 a part of the time could not be read, as the answer says.
    """
    answer = read(options, kinds or get_args(SeriesKind), least)
    if not answer.clusters:
        say_nothing_found(answer, NAMES_OF["agents"])
    write_answer(rendered(answer, format_, rows), output)
    sys.exit(EXIT_INCOMPLETE if answer.missing else 0)


def read(options: dict[str, Any], kinds: tuple[SeriesKind, ...], least: float) -> ChangesReport:
    from ofu_exporter.fleet.changes.report import changes_report, compare_all

    with asked_server(options) as (reader, times):
        collected, fleet = compare_all(reader, times, kinds)
    return changes_report(collected, fleet, least, kinds)


def rendered(answer: ChangesReport, format_: str, most_rows: int) -> bytes:
    from ofu_exporter.fleet.changes import text

    if format_ == "json":
        return shown_json(answer.model_dump_json(indent=2)).encode() + b"\n"
    document = text.document(answer, most_rows)
    written = document.markdown() if format_ == "markdown" else document.plain()
    return written.encode(errors="backslashreplace") + b"\n"
