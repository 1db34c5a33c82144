"""The command line: parses arguments, calls the program, prints the answer and exits.

Exit codes: 0 all is well; 1 an unexpected error, an interrupt, or an answer that cannot be written;
2 settings or arguments that cannot be used; 3 no source can be read, or nobody answers;
4 at least one GPU is not measured (`check`), nothing could be compared (`validate`), a part is missing (`fleet`);
5 a card outside the bounds (`validate`); 6 the driver was replaced under the agent, which must be restarted (`run`).
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import cast

import click

from ofu_exporter import __version__
from ofu_exporter.cli.answers import say
from ofu_exporter.cli.help import SubjectGroup
from ofu_exporter.errors import ConfigError, DriverReplacedError, OfuError

EXIT_UNEXPECTED = 1
EXITS = {ConfigError: 2, DriverReplacedError: 6, OfuError: 3}
"""The exit code of an error: that of the first kind that it is of."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of writing to a standard output that is full."""


SUBJECTS = {
    "Measure and report": ("check", "run", "top", "fleet", "demo"),
    "Jobs on this node": ("trace", "tail", "pause", "resume"),
    "FLOPs and MFU": ("flops", "mfu", "explain", "profile", "validate"),
    "For scripts": ("job", "record", "tile"),
    "This program": ("list", "files", "completion", "help"),
}
"""The commands in the order of the help."""
ELSEWHERE = {
    **{"demo": "run:demo", "help": "help:help_", "list": "lists:listing"},
    **{"mfu": "flops:mfu", "resume": "pause:resume", "completion": "files:completion"},
}
"""Module and function of the commands that neither is named after."""


class _Commands(Mapping[str, click.Command]):
    """The commands by name. Each is imported when it is used, so `job` does not have to load the agent."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in [*self]:
            raise KeyError(name)
        module, _, attribute = ELSEWHERE.get(name, f"{name}:{name}").partition(":")
        command = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        return cast(click.Command, command)

    def __iter__(self) -> Iterator[str]:
        return (name for names in SUBJECTS.values() for name in names)

    def __len__(self) -> int:
        return sum(map(len, SUBJECTS.values()))


COMMANDS = _Commands()


@click.group(
    cls=SubjectGroup,
    subjects=SUBJECTS,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="ofu-exporter")
def cli() -> None:
    """How much of a GPU's floating-point capability its jobs really use, for Prometheus."""


def main(obj: object = None) -> None:
    """Run the command line; ends the process with the exit code of an error. Commands may ask click for `obj`."""
    try:
        cli(prog_name="ofu-exporter", obj=obj)
    except OfuError as error:
        say(f"ofu-exporter: {error}", err=True)
        sys.exit(next(code for kind, code in EXITS.items() if isinstance(error, kind)))
    except OSError as error:
        if error.errno not in FULL:
            raise
        say(f"ofu-exporter: cannot write the answer: {error.strerror}", err=True)
        # Otherwise the interpreter tries again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EXIT_UNEXPECTED)
