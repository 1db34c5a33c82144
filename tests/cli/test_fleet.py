"""`fleet simulate` writes history, and refuses what cannot be in one line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ofu_exporter.cli import cli
from ofu_exporter.errors import ConfigError
from tests.helpers.fleets import NODES

TEXT = NODES + "length: 1h\nstart: 2025-08-27T00:00:00Z\njobs:\n  - {name: a, ofu: 0.3}\n"


def run(folder: Path, *args: str, text: str = TEXT) -> Result:
    (folder / "fleet.yaml").write_text(text)
    return CliRunner().invoke(cli, ["fleet", "simulate", str(folder / "fleet.yaml"), *args])


def test_history_is_written(tmp_path: Path) -> None:
    done = run(tmp_path, "--history", f"{tmp_path}/h")
    assert done.exit_code == 0, done.output
    assert "2 nodes, 1 jobs" in done.output
    assert [path.name for path in (tmp_path / "h").iterdir()] == ["recorded-2025-08-27T0000Z.om"]


def test_another_start_wins(tmp_path: Path) -> None:
    run(tmp_path, "--history", f"{tmp_path}/h", "--start", "2026-01-01T06:00Z")
    assert [path.name for path in (tmp_path / "h").iterdir()] == ["recorded-2026-01-01T0600Z.om"]


def test_history_goes_on_from_a_time(tmp_path: Path) -> None:
    run(tmp_path, "--history", f"{tmp_path}/h", "--from", "2025-08-27T00:30Z")
    assert [path.name for path in (tmp_path / "h").iterdir()] == ["recorded-2025-08-27T0030Z.om"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--speed", "0"), "--speed: 0 is not between"),
        (("--speed", "nan"), "--speed: nan is not between"),
        (("--from", "2025-08-27T00:30Z"), "--from needs --history"),
        (("--history", "h", "--from", "2025-08-28T00:30Z"), "not within the time of the fleet"),
        (("--listen", "nowhere"), "is not HOST:PORT"),
        (("--listen", "127.0.0.1:99999"), "is not HOST:PORT"),
        (("--history", "/dev/null/x"), "--history: /dev/null/x: Not a directory"),
    ],
)
def test_what_cannot_be_is_refused(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    found = run(tmp_path, *args)
    assert isinstance(found.exception, ConfigError)
    assert words in str(found.exception)


def test_history_may_end_now(tmp_path: Path) -> None:
    before = time.time() // 60 * 60
    run(tmp_path, "--history", f"{tmp_path}/h", "--end", "now")
    (last,) = sorted((tmp_path / "h").glob("*.om"))[-1:]
    stamps = [float(line.split()[-1]) for line in last.read_text().splitlines() if line[0] != "#"]
    assert before <= max(stamps) <= time.time()


def test_history_needs_a_start(tmp_path: Path) -> None:
    found = run(tmp_path, "--history", f"{tmp_path}/h", text=NODES)
    assert "--history needs --start" in str(found.exception)


@pytest.mark.parametrize("text", ["yesterday", "2025-08-27T00:00:30Z"])
def test_a_time_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    found = run(tmp_path, "--start", text)
    assert found.exit_code == 2
    assert "is not a" in found.output
