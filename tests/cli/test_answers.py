"""An answer as text, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ofu_exporter.cli import answers
from ofu_exporter.cli.answers import JsonRow, format_option, print_answer

ROWS: Sequence[JsonRow] = [
    {"name": 'a "b", c', "ratio": None, "parts": {"x": 1}},
    {"name": "two\nlines", "ratio": 0.25, "more": True},
]


@click.command()
@format_option
def command(format_: str) -> None:
    print_answer(format_, lambda: "two rows", lambda: ROWS, lambda: ROWS)


def answer(*args: str) -> str:
    result = CliRunner().invoke(command, args)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("args", [(), ("--format", "text")])
def test_text_is_the_default(args: tuple[str, ...]) -> None:
    assert answer(*args) == "two rows\n"


def test_json_is_the_data() -> None:
    assert json.loads(answer("--format", "json")) == ROWS


def test_csv_has_a_column_for_each_name_and_an_empty_cell_for_what_is_not_known() -> None:
    head, *rows = csv.reader(io.StringIO(answer("--format", "csv")))
    assert head == ["name", "ratio", "parts", "more"]
    assert rows == [['a "b", c', "", '{"x": 1}', ""], ["two\\nlines", "0.25", "", "true"]]


def test_only_what_the_format_needs_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    def never() -> Sequence[JsonRow]:
        raise AssertionError("not needed")

    print_answer("text", lambda: "text", never, never)
    assert capsys.readouterr().out == "text\n"


MAKE_THEIR_OWN = {
    "answers.py": "the functions that the others use",
    "help.py": "our own words",
    "files.py": "a script of our own for a shell",
    "fleet_server.py": "moves the cursor",
    "fleet_report.py": "bytes that are written already",
    "top.py": "has colours; its cells are escaped one by one",
    "bundle.py": "a list in lines",
    "job.py": "lines that were escaped when the agent gave them",
}


def test_every_other_command_prints_by_the_functions_that_escape() -> None:
    files = Path(answers.__file__).parent.glob("*.py")
    assert {each.name for each in files if "click.echo(" in each.read_text()} == {*MAKE_THEIR_OWN}
