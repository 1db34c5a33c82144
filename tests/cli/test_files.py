"""`files` writes what lies beside the agent, whole, and replaces nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ofu_exporter.cli import cli
from ofu_exporter.cli.files import PLACES, SHELLS, place, script
from ofu_exporter.errors import ConfigError
from tests.helpers.in_process import call

PROGRAM = Path(sys.executable).with_name("ofu-exporter")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_written_where_the_shell_looks(shell: str, tmp_path: Path) -> None:
    printed = call("completion", shell).stdout
    done = call("completion", shell, "--install", env={"HOME": str(tmp_path)})
    path = place(shell, {"HOME": str(tmp_path)})
    assert str(path) in done.stdout
    assert path.read_text() == printed
    assert path.is_relative_to(tmp_path)


def test_a_user_without_a_home_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os.path, "expanduser", str)  # as where /etc/passwd does not name them
    with pytest.raises(ConfigError, match="set HOME"):
        place("bash", {})
    assert place("bash", {"XDG_DATA_HOME": str(tmp_path)}).is_relative_to(tmp_path)


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


@pytest.mark.parametrize(
    "home", ["https://git.example.com/ofu/blob/v1", "https://git.example.com/ofu/blob/v1/"]
)
def test_alerts_lead_to_their_runbooks_where_the_home_is_known(home: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["files", str(tmp_path / "made"), "--home", home])
    assert done.exit_code == 0, done.output
    assert "--home" not in done.output
    written = [yaml.safe_load(path.read_text()) for path in (tmp_path / "made/alerts").glob("*")]
    alerts = [rule for each in written for group in each["groups"] for rule in group["rules"]]
    assert len(alerts) > 10
    for alert in alerts:
        anchor = alert["alert"].lower()
        url = f"https://git.example.com/ofu/blob/v1/docs/runbooks.md#{anchor}"
        assert alert["annotations"]["runbook_url"] == url


def test_without_a_home_it_is_said_how_to_make_links(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["files", str(tmp_path / "made"), "--home", ""])
    assert "Alerts name their runbook by its path; --home URL makes it a link." in done.output
    alert = yaml.safe_load((tmp_path / "made/alerts/agent-down.yaml").read_text())
    (rule,) = alert["groups"][0]["rules"]
    assert rule["annotations"]["runbook_url"] == "docs/runbooks.md#ofuagentdown"


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
