"""`files` and `completion`: write what a site sets up beside the agent, and the script with which a shell completes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ofu_exporter.cli.answers import say
from ofu_exporter.cli.option_types import FOLDER, flag, option
from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.support import documentation

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "ofu-exporter"
VARIABLE = "_OFU_EXPORTER_COMPLETE"
"""Variable with which click makes the program answer a shell's completion request instead of doing its work."""


@click.command(short_help="Completion of commands and options in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@flag("--install", "Install the script where the shell looks for it.")
def completion(shell: str, install: bool) -> None:
    """Print the script with which a shell completes commands and options."""
    text = script(shell)
    if not install:
        click.echo(text)
        return
    path = place(shell, os.environ)
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    say(f"{path} is written; new shells complete {PROGRAM}.")
    if shell == "zsh":
        say(f"For zsh, add to ~/.zshrc, before compinit: fpath+=({path.parent})")


def script(shell: str) -> str:
    completion_class = get_completion_class(shell)
    assert completion_class is not None, shell
    return completion_class(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source().strip()


def place(shell: str, environ: Mapping[str, str]) -> Path:
    """The file from which a shell of this user loads it. Raises ConfigError for a user without a home."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    path = place_in(config if shell == "fish" else data, shell)
    if not path.is_absolute():
        raise ConfigError(f"--install: {path} is not an absolute path: set HOME")
    return path


def place_in(folder: Path, shell: str) -> Path:
    """The file below a folder of data, such as /usr/share."""
    return {
        "bash": folder / "bash-completion/completions" / PROGRAM,
        "zsh": folder / "zsh/site-functions" / f"_{PROGRAM}",
        "fish": folder / "fish/completions" / f"{PROGRAM}.fish",
    }[shell]


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
@option(
    "--home",
    "Where the project's files can be read, for links to runbooks; default: as the release says.",
    metavar="URL",
)
def files(directory: Path, home: str | None) -> None:
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
        is_linked = _link_runbooks(
            directory / "alerts", documentation.home() if home is None else home
        )
        for shell in SHELLS:
            target = place_in(directory / "completions", shell)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(script(shell) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{error.filename or directory}: {error.strerror or error}") from error
    for part in sorted(directory.iterdir()):
        count = sum(path.is_file() for path in part.rglob("*"))
        say(f"{part}: {count} file{'s' * (count != 1)}")
    if not is_linked:
        say("Alerts name their runbook by its path; --home URL makes it a link.")


def _link_runbooks(alerts: Path, home: str) -> bool:
    """Make links of the runbooks' paths; whether that is known where they are."""
    base = f"{home.rstrip('/')}/" if home else ""
    for path in alerts.glob("*.yaml") if base else ():
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(" runbook_url: docs/", f" runbook_url: {base}docs/"), "utf-8")
    return bool(base)


def folder(name: str) -> Path:
    """Where one of these folders is: in the installed package, or in the checkout around it."""
    packed = PACKAGE / "files" / name
    return packed if packed.is_dir() else PACKAGE.parent / PLACES[name]
