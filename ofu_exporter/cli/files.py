"""`files`: writes what a site sets up beside the agent: rules, dashboards, units, hooks, man page, completions."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from ofu_exporter.cli.completion import SHELLS, place_in, script
from ofu_exporter.cli.option_types import FOLDER
from ofu_exporter.errors import ConfigError

PACKAGE = Path(__file__).parents[1]
PLACES = {
    "alerts": "helm/ofu-exporter/files/alerts",
    "rules": "helm/ofu-exporter/files/rules",
    "dashboards": "helm/ofu-exporter/files/dashboards",
    "systemd": "deploy/systemd",
    "slurm": "deploy/slurm",
    "man": "deploy/man",
}
"""The folders, and where a checkout has them; a wheel has them in ofu_exporter/files."""


@click.command(short_help="Write rules, dashboards, units, hooks, man page, completions.")
@click.argument("directory", type=FOLDER)
def files(directory: Path) -> None:
    """Write everything that a site sets up beside the agent to DIRECTORY, which must be new or empty.

    These are recording rules and alerts for Prometheus, dashboards for Grafana, units for systemd, hooks for
    Slurm, the man page, and completions for shells, all of this very version.
    """
    try:
        if directory.exists() and any(directory.iterdir()):
            raise ConfigError(
                f"{directory} is not empty; name a new folder, so that nothing is replaced"
            )
        for name in PLACES:
            shutil.copytree(folder(name), directory / name)
        for shell in SHELLS:
            target = place_in(directory / "completions", shell)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(script(shell) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{error.filename or directory}: {error.strerror or error}") from error
    for part in sorted(directory.iterdir()):
        count = sum(path.is_file() for path in part.rglob("*"))
        click.echo(f"{part}: {count} file{'s' * (count != 1)}")


def folder(name: str) -> Path:
    """Where one of these folders is: in the installed package, or in the checkout around it."""
    packed = PACKAGE / "files" / name
    return packed if packed.is_dir() else PACKAGE.parent / PLACES[name]
