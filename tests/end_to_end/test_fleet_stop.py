"""`fleet simulate` ends at SIGTERM and Ctrl-C wherever it is, and leaves only files that are whole."""

from __future__ import annotations

import re
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.deploy.monitoring import answers, free_port
from tests.helpers.agent import COMMAND, bare_environment, until
from tests.helpers.broken_node import full_disk, why_no_mounts

pytestmark = pytest.mark.slow

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
MANY = 100
SERVED = (
    f"nodes:\n  - {{name: n, count: {MANY}, model: H100, gpus: 8}}\n"
    f"jobs:\n  - {{name: train, count: {MANY // 2}, gpus: 16, mfu: 0.4, report: {{}}}}\n"
)
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


@contextmanager
def simulating(text: str, folder: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """A simulator, which is killed when a test fails."""
    spec = folder / "fleet.yaml"
    spec.write_text(text)
    with subprocess.Popen(
        # What a shell runs in its background ignores SIGINT, and so would all that it starts.
        ["env", "--default-signal=INT", *COMMAND, "fleet", "simulate", str(spec), *flags],
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


@SIGNALS
def test_a_stop_waits_for_no_scrape(number: signal.Signals, tmp_path: Path) -> None:
    """Each scrape has to compute what passed since the last one: all of them would take longer than the fleet lasts."""
    port = free_port()
    flags = ("--listen", f"127.0.0.1:{port}", "--speed", "1000")
    with simulating(SERVED, tmp_path, *flags) as process, ExitStack() as stack:
        until(lambda: answers(f"http://127.0.0.1:{port}/sd"))
        asked = []
        for node in range(1, MANY + 1):
            asked.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            asked[-1].sendall(b"GET /nodes/n%d/metrics HTTP/1.1\r\nHost: n\r\n\r\n" % node)
        answered, _, _ = select.select(asked, [], [], 20)
        assert 0 < len(answered) < MANY
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@SIGNALS
def test_a_stop_leaves_history_that_can_be_gone_on_with(
    number: signal.Signals, tmp_path: Path
) -> None:
    folder, whole = tmp_path / "history", tmp_path / "whole"
    with simulating(WRITTEN, tmp_path, "--history", str(whole)) as process:
        assert process.wait(60) == 0
    with simulating(WRITTEN, tmp_path, "--history", str(folder)) as process:
        until(lambda: folder.exists() and len(contents(folder).keys() & contents(whole).keys()) > 1)
        process.send_signal(number)
        assert process.wait(20) == 1
        assert process.stderr is not None
        said = process.stderr.read().strip()
    why = "stopped; the files written are complete: continue with --from "
    assert said.startswith(f"ofu-exporter: {why}")
    kept = contents(folder)
    assert kept.items() < contents(whole).items()
    begin = said.rpartition(" ")[2]
    with simulating(WRITTEN, tmp_path, "--history", str(folder), "--from", begin) as process:
        assert process.wait(60) == 0
    assert contents(folder) == contents(whole)


@pytest.mark.skipif(why_no_mounts() != "", reason=why_no_mounts())
def test_a_full_disk_ends_history_that_can_be_gone_on_with(tmp_path: Path) -> None:
    whole, small = tmp_path / "whole", tmp_path / "small"
    with simulating(FEW, tmp_path, "--history", str(whole)) as process:
        assert process.wait(60) == 0
    room = tmp_path / "room"
    with full_disk(small):
        with simulating(FEW, tmp_path, "--history", str(small)) as process:
            assert process.wait(60) == 3
            assert process.stderr is not None
            said = process.stderr.read()
        assert "No space left on device" in said
        found = re.search(r"free some space, and continue with --from (\S+)\n$", said)
        assert found is not None
        kept = contents(small)
    assert kept
    assert kept.items() < contents(whole).items()
    with simulating(FEW, tmp_path, "--history", str(room), "--from", found[1]) as process:
        assert process.wait(60) == 0
    assert {**kept, **contents(room)} == contents(whole)
