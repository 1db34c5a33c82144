"""`completion`: prints or installs the script with which a shell completes this program's commands and options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ofu_exporter.cli.option_types import flag
from ofu_exporter.errors import file_errors

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
    click.echo(f"{path} is written; new shells complete {PROGRAM}.")
    if shell == "zsh":
        click.echo(f"For zsh, add to ~/.zshrc, before compinit: fpath+=({path.parent})")


def script(shell: str) -> str:
    completion_class = get_completion_class(shell)
    assert completion_class is not None, shell
    return completion_class(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source().strip()


def place(shell: str, environ: Mapping[str, str]) -> Path:
    """The file from which a shell of this user loads it."""
    home = Path(environ.get("HOME") or "~").expanduser()
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return place_in(config if shell == "fish" else data, shell)


def place_in(folder: Path, shell: str) -> Path:
    """The file below a folder of data, such as /usr/share."""
    return {
        "bash": folder / "bash-completion/completions" / PROGRAM,
        "zsh": folder / "zsh/site-functions" / f"_{PROGRAM}",
        "fish": folder / "fish/completions" / f"{PROGRAM}.fish",
    }[shell]
