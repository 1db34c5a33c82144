"""The help of a command, by subject; what is rare is shown by --help-all."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from click.testing import CliRunner

from ofu_exporter import __version__
from ofu_exporter.cli import cli
from ofu_exporter.cli.help import SubjectCommand, SubjectOption


@click.command(cls=SubjectCommand, common="plain cold")
@click.option("--plain", help="Of no subject.")
@click.option("--cold", "--freezing", cls=SubjectOption, subject="Weather", help="Not warm.")
@click.option("--hail", cls=SubjectOption, subject="Weather", help="Seldom.")
def command(plain: str, cold: str, hail: str) -> None:
    """Shows its help."""


@click.command(cls=SubjectCommand, common="plain")
@click.option("--plain", help="Of no subject.")
@click.option("--old", cls=SubjectOption, hidden=True, help="Of no use.")
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


def commands(
    group: click.Group, ctx: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """Every command of the program, below a group, with its context."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        below = command.make_context(name, [], ctx, resilient_parsing=True)
        yield command, below
        if isinstance(command, click.Group):
            yield from commands(command, below)


def test_no_command_shows_more_than_twelve_options_at_first_glance() -> None:
    for command, ctx in commands(cli, click.Context(cli, info_name="ofu-exporter")):
        options = re.findall(r"^  -", command.get_help(ctx), re.MULTILINE)
        assert len(options) <= 12, ctx.command_path


def test_every_option_says_what_it_does() -> None:
    for command, ctx in commands(cli, click.Context(cli, info_name="ofu-exporter")):
        options = [each for each in command.params if isinstance(each, click.Option)]
        assert [each.name for each in options if not each.help] == [], ctx.command_path


def test_a_default_that_an_option_names_is_its_own() -> None:
    for command, ctx in commands(cli, click.Context(cli, info_name="ofu-exporter")):
        for each in command.params:
            says = getattr(each, "help", None) or ""
            if "Default: " in says and each.default and isinstance(each.default, str | int | float):
                assert says.endswith(f" {each.default}."), (ctx.command_path, each.name)


def test_every_command_takes_help_all() -> None:
    for command, _ in commands(cli, click.Context(cli, info_name="ofu-exporter")):
        shown(command, "--help-all")


def test_an_argument_is_no_option_of_its_command() -> None:
    assert "Options:\n  FILE" not in shown(cli.commands["record"], "--help")
    assert "Options:\n  FILE" not in shown(cli.commands["record"], "--help-all")


def test_every_name_that_a_command_lists_as_common_is_one_of_its_options() -> None:
    for command, ctx in commands(cli, click.Context(cli, info_name="ofu-exporter")):
        common = getattr(command, "_common", ())
        assert {*common} <= {param.name for param in command.get_params(ctx)}, ctx.command_path


def test_help_is_a_command_too() -> None:
    by_flag = CliRunner().invoke(cli, ["fleet", "digest", "--help"]).output
    assert CliRunner().invoke(cli, ["help", "fleet", "digest"]).output == by_flag
    wrong = CliRunner().invoke(cli, ["help", "fleet", "nothing"])
    assert (wrong.exit_code, "fleet has no command 'nothing'" in wrong.output) == (2, True)


def test_help_all_of_a_group_has_every_option_of_its_commands() -> None:
    text = shown(cli.commands["fleet"], "--help-all")
    for option in ("--client-key", "--speed", "--prices", "--send"):
        assert option in text
    assert "--client-key" not in shown(cli.commands["fleet"], "--help")


def test_the_version_has_a_short_flag() -> None:
    assert CliRunner().invoke(cli, ["-V"]).output.endswith(f"version {__version__}\n")
