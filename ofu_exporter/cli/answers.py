"""Prints an answer in the format that was asked for: text for people, JSON, or CSV with a row for each thing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

FORMATS = ("text", "json", "csv")
Row = Mapping[str, Any]


format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    help="How the answer is printed. Default: text.",
)


def print_answer(
    format_: str,
    text: Callable[[], str],
    data: Callable[[], Any],
    rows: Callable[[], Sequence[Row]] | None = None,
) -> None:
    """Print an answer. Only the form that the format needs is computed. Without `rows` the data are rows."""
    if format_ == "json":
        click.echo(json.dumps(data(), indent=2))
    elif format_ == "csv":
        click.echo(csv_text((rows or data)()))
    else:
        click.echo(text())


def csv_text(rows: Sequence[Row], columns: Sequence[str] = ()) -> str:
    """Rows as CSV, with the keys as column names. An unknown value is an empty cell; a list or an object is JSON."""
    import csv  # imported here because Slurm's hooks load this file and print no CSV

    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return file.getvalue().rstrip("\n")


def _cell(value: object) -> object:
    if isinstance(value, (dict, list, tuple, bool)):
        return json.dumps(value)
    return value
