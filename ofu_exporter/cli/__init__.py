"""The command line: parses, calls, prints and exits; nothing else here decides anything.

Exit codes: 0 all is well; 1 an unexpected error; 2 settings or arguments that cannot be used;
3 no source can be read; 4 at least one GPU is not measured (`check`).
"""

from __future__ import annotations

import sys

import click

from ofu_exporter import __version__
from ofu_exporter.cli.check import check
from ofu_exporter.cli.flops import flops, mfu
from ofu_exporter.cli.lists import listing
from ofu_exporter.cli.record import record
from ofu_exporter.cli.run import demo, run
from ofu_exporter.errors import ConfigError, OfuError

EXIT_CONFIG = 2
EXIT_SOURCE = 3


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ofu-exporter")
def cli() -> None:
    """How much of a GPU's floating-point capability its jobs really use, for Prometheus."""


for command in (run, demo, check, record, listing, flops, mfu):
    cli.add_command(command)


def main() -> None:
    """The `ofu-exporter` command."""
    try:
        cli(prog_name="ofu-exporter")
    except ConfigError as error:
        click.echo(f"ofu-exporter: {error}", err=True)
        sys.exit(EXIT_CONFIG)
    except OfuError as error:
        click.echo(f"ofu-exporter: {error}", err=True)
        sys.exit(EXIT_SOURCE)
