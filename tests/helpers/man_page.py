"""Writes deploy/man/ofu-exporter.1 from the program's own help: `python -m tests.helpers.man_page`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from ofu_exporter.cli import SUBJECTS, cli

FILE = Path(__file__).parents[2] / "deploy" / "man" / "ofu-exporter.1"
HEAD = """\
.TH OFU-EXPORTER 1 "" "ofu-exporter" "User Commands"
.SH NAME
ofu-exporter \\- how much of a GPU's floating-point capability its jobs really use
.SH SYNOPSIS
.B ofu-exporter
.I COMMAND
[\\fIOPTION\\fR]...
.SH DESCRIPTION
Each command has --help, and --help-all where that shows only the common options.
Every setting of the agent can also be a variable (OFU_INTERVAL=1s) or a key of the file given with --config."""
EXIT = """\
.SH EXIT STATUS
.TP
0
All is well.
.TP
1
An unexpected error, an interrupt, or an answer that cannot be written.
.TP
2
Settings or arguments that cannot be used.
.TP
3
No source can be read, or nobody answers.
.TP
4
At least one GPU is not measured (check), nothing could be compared (validate), or a part could not be read (fleet).
.TP
5
A card outside the bounds (validate).
.TP
6
The driver was replaced under the agent, which must be restarted (run)."""


def page() -> str:
    """The whole page in the language of man(7)."""
    return "\n".join([HEAD, *_commands(), EXIT]) + "\n"


def _commands() -> Iterator[str]:
    context = click.Context(cli, info_name="ofu-exporter")
    for subject, names in SUBJECTS.items():
        yield f'.SH "{subject.upper()}"'
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None, name
            yield from _command(command, click.Context(command, context, name))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    words = context.command_path.removeprefix("ofu-exporter ")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (".SS", _escaped(f"{words} {usage}"))
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield from (".PP", _escaped(" ".join(paragraph.split())))
    for parameter in command.params:
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield from (".TP", f"\\fB{_escaped(record[0])}\\fR", _escaped(record[1]))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            yield from _command(inner, click.Context(inner, context, name))


def _escaped(text: str) -> str:
    """Text without what troff takes for its own."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(page(), encoding="utf-8")
