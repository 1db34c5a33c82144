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
from collections.abc import Iterator, Mapping, MutableMapping
from typing import cast

import click

from ofu_exporter import __version__
from ofu_exporter.cli.help import SubjectGroup
from ofu_exporter.errors import ConfigError, DriverReplacedError, OfuError
from ofu_exporter.values.text import shown

EXIT_UNEXPECTED = 1
EXIT_CONFIG = 2
EXIT_SOURCE = 3
EXIT_DRIVER = 6
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of writing to a standard output that is full."""


class _Commands(MutableMapping[str, click.Command]):
    """The commands by name. Each is imported when it is used, so `job` does not have to load the agent."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            loaded = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
            self._loaded[name] = cast(click.Command, loaded)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places[name] = ""
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


COMMANDS = _Commands(
    {
        "check": "check:check",
        "completion": "completion:completion",
        "demo": "run:demo",
        "explain": "explain:explain",
        "files": "files:files",
        "fleet": "fleet:fleet",
        "flops": "flops:flops",
        "help": "help:help_",
        "job": "job:job",
        "list": "lists:listing",
        "mfu": "flops:mfu",
        "pause": "pause:pause",
        "profile": "profile:profile",
        "record": "record:record",
        "resume": "pause:resume",
        "run": "run:run",
        "tail": "tail:tail",
        "tile": "tile:tile",
        "top": "top:top",
        "validate": "validate:validate",
    }
)
SUBJECTS = {
    "Measure and report": ("check", "run", "top", "fleet", "demo"),
    "Jobs on this node": ("tail", "pause", "resume"),
    "FLOPs and MFU": ("flops", "mfu", "explain", "profile", "validate"),
    "For scripts": ("job", "record", "tile"),
    "This program": ("list", "files", "completion", "help"),
}
"""The commands in the order of the help."""


@click.group(
    cls=SubjectGroup,
    subjects=SUBJECTS,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="ofu-exporter")
def cli() -> None:
    """How much of a GPU's floating-point capability its jobs really use, for Prometheus."""


def main() -> None:
    """Run the command line; ends the process with the exit code of an error."""
    try:
        cli(prog_name="ofu-exporter")
    except ConfigError as error:
        click.echo(f"ofu-exporter: {shown(str(error))}", err=True)
        sys.exit(EXIT_CONFIG)
    except DriverReplacedError as error:
        click.echo(f"ofu-exporter: {shown(str(error))}", err=True)
        sys.exit(EXIT_DRIVER)
    except OfuError as error:
        click.echo(f"ofu-exporter: {shown(str(error))}", err=True)
        sys.exit(EXIT_SOURCE)
    except OSError as error:
        if error.errno not in FULL:
            raise
        click.echo(f"ofu-exporter: cannot write the answer: {error.strerror}", err=True)
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # otherwise the interpreter tries again when it exits
        sys.exit(EXIT_UNEXPECTED)
