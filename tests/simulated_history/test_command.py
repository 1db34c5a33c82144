"""The command writes history, goes on after a stop and a full disk, and refuses what cannot be in one line."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.agent import bare_environment, until
from tests.helpers.broken_node import full_disk, why_no_mounts
from tests.helpers.fleets import NODES
from tests.simulated_history.command import CANNOT, NAME, STOPPED, main

HOUR = NODES + "length: 1h\njobs:\n  - {name: a, ofu: 0.3}\n"
TEXT = HOUR + "start: 2025-08-27T00:00:00Z\n"
WRITTEN = """
start: 2025-08-27T00:00:00Z
length: 6h
nodes:
  - {name: n, count: 10, model: H100, gpus: 8}
jobs:
  - {name: train, count: 5, gpus: 16, mfu: 0.4, report: {}}
history: {segment: 1h, raw: [{nodes: [n1], at: 2h, lasts: 1h}]}
"""
FEW = """
start: 2025-08-27T00:00:00Z
length: 3h
nodes:
  - {name: n, count: 6, model: H100, gpus: 1}
history: {segment: 1h, levels: [node]}
"""


def run(folder: Path, *flags: str, text: str = TEXT, into: str = "h") -> int:
    (folder / "fleet.yaml").write_text(text)
    return main([str(folder / "fleet.yaml"), str(folder / into), *flags])


def names(folder: Path) -> list[str]:
    return [path.name for path in (folder / "h").iterdir()]


def test_history_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    assert "2 nodes, 1 jobs" in capsys.readouterr().out
    assert names(tmp_path) == ["recorded-2025-08-27T0000Z.om"]


def test_another_start_wins(tmp_path: Path) -> None:
    assert run(tmp_path, "--start", "2026-01-01T06:00Z") == 0
    assert names(tmp_path) == ["recorded-2026-01-01T0600Z.om"]


def test_history_goes_on_from_a_time(tmp_path: Path) -> None:
    assert run(tmp_path, "--from", "2025-08-27T00:30Z") == 0
    assert names(tmp_path) == ["recorded-2025-08-27T0030Z.om"]


def test_history_may_end_now(tmp_path: Path) -> None:
    before = time.time() // 60 * 60
    assert run(tmp_path, "--end", "now") == 0
    (last,) = sorted((tmp_path / "h").glob("*.om"))[-1:]
    stamps = [float(line.split()[-1]) for line in last.read_text().splitlines() if line[0] != "#"]
    assert before <= max(stamps) <= time.time()


@pytest.mark.parametrize(
    ("flags", "text", "into", "words"),
    [
        (("--from", "2025-08-28T00:30Z"), TEXT, "h", "not within the time of the fleet"),
        ((), TEXT, "fleet.yaml/x", "fleet.yaml/x: Not a directory"),
        ((), HOUR, "h", "give --start or --end"),
    ],
)
def test_what_cannot_be_is_refused(
    flags: tuple[str, ...],
    text: str,
    into: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(tmp_path, *flags, text=text, into=into) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", ["yesterday", "2025-08-27T00:00:30Z"])
def test_a_time_that_is_none_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path, "--start", text)
    assert "is not a" in capsys.readouterr().err


@contextmanager
def writing(text: str, folder: Path, into: Path) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which is killed when a test fails."""
    spec = folder / "fleet.yaml"
    spec.write_text(text)
    command = [sys.executable, "-W", "error", "-m", "tests.simulated_history", str(spec), str(into)]
    with subprocess.Popen(
        # What a shell runs in its background ignores SIGINT, and so would all that it starts.
        ["env", "--default-signal=INT", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=bare_environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history that nothing stops."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder, text=WRITTEN) == 0
    return folder / "h"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_stop_leaves_history_that_can_be_gone_on_with(
    number: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "h"
    with writing(WRITTEN, tmp_path, folder) as process:
        until(lambda: folder.exists() and len(contents(folder).keys() & contents(whole).keys()) > 1)
        process.send_signal(number)
        assert process.wait(20) == STOPPED
        assert process.stderr is not None
        said = process.stderr.read().strip()
    why = "stopped; the files written are complete: continue with --from "
    assert said.startswith(f"{NAME}: {why}")
    kept = contents(folder)
    assert kept.items() < contents(whole).items()
    begin = said.rpartition(" ")[2]
    assert run(tmp_path, "--from", begin, text=WRITTEN) == 0
    assert contents(folder) == contents(whole)


@pytest.mark.slow
@pytest.mark.skipif(why_no_mounts() != "", reason=why_no_mounts())
def test_a_full_disk_ends_history_that_can_be_gone_on_with(tmp_path: Path) -> None:
    whole, small = tmp_path / "whole", tmp_path / "small"
    assert run(tmp_path, text=FEW, into="whole") == 0
    room = tmp_path / "room"
    with full_disk(small):
        with writing(FEW, tmp_path, small) as process:
            assert process.wait(60) == CANNOT
            assert process.stderr is not None
            said = process.stderr.read()
        assert "No space left on device" in said
        found = re.search(r"free some space, and continue with --from (\S+)\n$", said)
        assert found is not None
        kept = contents(small)
    assert kept
    assert kept.items() < contents(whole).items()
    assert run(tmp_path, "--from", found[1], text=FEW, into="room") == 0
    assert {**kept, **contents(room)} == contents(whole)
