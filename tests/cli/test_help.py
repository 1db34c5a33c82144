"""The help of a command, by subject; what is rare is shown by --help-all."""

from __future__ import annotations

import click
from click.testing import CliRunner

from ofu_exporter.cli.help import SubjectCommand, SubjectOption


@click.command(cls=SubjectCommand)
@click.option("--plain", help="Of no subject.")
@click.option("--cold", "--freezing", cls=SubjectOption, subject="Weather", help="Not warm.")
@click.option("--hail", cls=SubjectOption, subject="Weather", rare=True, help="Seldom.")
def command(plain: str, cold: str, hail: str) -> None:
    """Shows its help."""


@click.command(cls=SubjectCommand)
@click.option("--plain", help="Of no subject.")
@click.option("--old", cls=SubjectOption, rare=True, hidden=True, help="Of no use.")
def simple(plain: str, old: str) -> None:
    """Has nothing rare that is shown."""


def shown(which: click.Command, flag: str) -> str:
    result = CliRunner().invoke(which, [flag])
    assert result.exit_code == 0, result.output
    return result.output


def test_options_stand_under_their_subject() -> None:
    first, weather = shown(command, "--help").split("Weather:\n")
    assert "--plain" in first
    assert "--cold" not in first
    assert "--cold TEXT" in weather


def test_what_is_rare_is_shown_with_every_name_by_help_all_alone() -> None:
    assert "--hail" not in shown(command, "--help")
    assert "--freezing" not in shown(command, "--help")
    assert "--hail" in shown(command, "--help-all")
    assert "--cold, --freezing TEXT" in shown(command, "--help-all")


def test_there_is_no_help_all_where_help_shows_all() -> None:
    assert "--help-all" in shown(command, "--help")
    assert "--help-all" not in shown(simple, "--help")
