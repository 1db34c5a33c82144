"""Completion, asked for by a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ofu_exporter.cli.completion import SHELLS, place
from tests.helpers.agent import call

PROGRAM = Path(sys.executable).with_name("ofu-exporter")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_written_where_the_shell_looks(shell: str, tmp_path: Path) -> None:
    printed = call("completion", shell).stdout
    done = call("completion", shell, "--install", env={"HOME": str(tmp_path)})
    path = place(shell, {"HOME": str(tmp_path)})
    assert str(path) in done.stdout
    assert path.read_text() == printed
    assert path.is_relative_to(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = call("completion", "bash", "--install", env={"XDG_DATA_HOME": str(tmp_path / "file")})
    assert done.returncode == 2
    assert "file/bash-completion" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bash") or not PROGRAM.exists(), reason="no bash here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("ofu-exporter che", "check"), ("ofu-exporter run --state-f", "--state-file")],
)
def test_bash_completes_commands_and_options(typed: str, offered: str, tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(call("completion", "bash").stdout)
    words = typed.split()
    asking = (
        f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
        '_ofu_exporter_completion ofu-exporter; echo "${COMPREPLY[@]}"'
    )
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", asking], capture_output=True, text=True, env={"PATH": path}, check=True
    )
    assert offered in done.stdout.split()
