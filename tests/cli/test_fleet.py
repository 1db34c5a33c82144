"""`fleet simulate` says where it serves, and refuses what cannot be in one line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from ofu_exporter.cli import cli
from ofu_exporter.errors import ConfigError
from tests.helpers.agent import COMMAND, bare_environment
from tests.helpers.fleets import NODES

TEXT = NODES + "jobs:\n  - {name: a, ofu: 0.3}\n"


def run(folder: Path, *args: str) -> Result:
    (folder / "fleet.yaml").write_text(TEXT)
    return CliRunner().invoke(cli, ["fleet", "simulate", str(folder / "fleet.yaml"), *args])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--speed", "0"), "--speed: 0 is not between"),
        (("--speed", "nan"), "--speed: nan is not between"),
        (("--listen", "nowhere"), "is not HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), "is not HOST:PORT"),
    ],
)
def test_what_cannot_be_is_refused(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    found = run(tmp_path, *args)
    assert isinstance(found.exception, ConfigError)
    assert words in str(found.exception)


@pytest.mark.parametrize("text", ["yesterday", "2025-08-27T00:00", "2025-08-27T00:00:30Z"])
def test_a_time_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    found = run(tmp_path, "--start", text)
    assert found.exit_code == 2
    assert "does not match the format" in found.output


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_port_that_the_system_chose_is_named_and_answers(host: str, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(TEXT)
    command = [*COMMAND, "fleet", "simulate", str(tmp_path / "fleet.yaml"), "--listen", f"{host}:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=bare_environment()
    ) as process:
        try:
            assert process.stdout is not None
            fleet, addresses = process.stdout.readline(), process.stdout.readline()
            assert "2 nodes, 1 job" in fleet
            target, _, port = addresses.split()[1].removesuffix("/sd").rpartition(":")
            assert (target, port != "0") == (f"http://{host}", True)
            found = httpx.get(f"{target}:{port}/sd", timeout=60).json()
            assert [each["targets"] for each in found] == [[f"{host}:{port}"]] * 2
        finally:
            process.kill()
