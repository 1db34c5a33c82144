"""`files` writes what lies beside the agent, whole, and replaces nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ofu_exporter.cli import cli
from ofu_exporter.cli.completion import SHELLS, script
from ofu_exporter.cli.files import PLACES
from ofu_exporter.errors import ConfigError


def test_every_folder_is_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    done = CliRunner().invoke(cli, ["files", str(target)])
    assert done.exit_code == 0, done.output
    assert {path.name for path in target.iterdir()} == {*PLACES, "completions"}
    for name in ("alerts", "rules"):
        assert all(yaml.safe_load(path.read_text()) for path in (target / name).glob("*.yaml"))
    assert all(
        json.loads(path.read_text())["uid"] for path in (target / "dashboards").glob("*.json")
    )
    assert (target / "man" / "ofu-exporter.1").read_text().startswith(".TH OFU-EXPORTER 1")
    assert subprocess.run(["sh", "-n", target / "slurm" / "prolog.sh"], check=False).returncode == 0


def test_completions_stand_where_a_shell_looks_below_usr_share(tmp_path: Path) -> None:
    CliRunner().invoke(cli, ["files", str(tmp_path / "made")])
    places = [path for path in (tmp_path / "made" / "completions").rglob("*") if path.is_file()]
    assert sorted(path.read_text() for path in places) == sorted(
        script(each) + "\n" for each in SHELLS
    )
    assert tmp_path / "made/completions/bash-completion/completions/ofu-exporter" in places


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("1")
    done = CliRunner().invoke(cli, ["files", str(tmp_path)])
    assert isinstance(done.exception, ConfigError)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("place", ["mine", "mine/new"])
def test_a_place_that_cannot_be_written_is_said_in_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("1")
    done = CliRunner().invoke(cli, ["files", str(tmp_path / place)])
    assert isinstance(done.exception, ConfigError)
    assert "Not a directory" in str(done.exception)
