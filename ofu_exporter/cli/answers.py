"""Prints an answer in the format that was asked for: text for people, JSON, or CSV with a row for each thing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ofu_exporter.values.text import shown, shown_json, shown_lines

FORMATS = ("text", "json", "csv")
JsonRow = Mapping[str, Any]


format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    help="How the answer is printed. Default: text.",
)


def say(line: str, err: bool = False) -> None:
    """Print a line: a name from outside neither begins another one nor reaches the terminal as a control."""
    click.echo(shown(line), err=err)


def print_answer(
    format_: str,
    text: Callable[[], str],
    data: Callable[[], Any],
    rows: Callable[[], Sequence[JsonRow]] | None = None,
) -> None:
    """Print an answer. Only the form that the format needs is computed. Without `rows` the data are rows.

    `text` has made its lines safe, as `support.tables.text` does.
    """
    if format_ == "json":
        print_json(json.dumps(data(), indent=2))
    elif format_ == "csv":
        from ofu_exporter.support.csv_text import csv_text  # Slurm's hooks print no CSV

        click.echo(csv_text((rows or data)()), nl=False)
    else:
        click.echo(shown_lines(text()))


def print_json(text: str) -> None:
    click.echo(shown_json(text))
