"""`fleet simulate` ends at SIGTERM and Ctrl-C, whoever waits for a page."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.helpers.agent import COMMAND, bare_environment, until
from tests.helpers.prometheus_server import answers, free_port

pytestmark = pytest.mark.slow

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
MANY = 100
SERVED = (
    f"nodes:\n  - {{name: n, count: {MANY}, model: H100, gpus: 8}}\n"
    f"jobs:\n  - {{name: train, count: {MANY // 2}, gpus: 16, mfu: 0.4, report: {{}}}}\n"
)


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
