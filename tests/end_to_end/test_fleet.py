"""A real Prometheus finds the nodes of a simulated fleet by itself; `fleet simulate` ends at SIGTERM and Ctrl-C."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.helpers.agent import COMMAND, bare_environment, until
from tests.helpers.prometheus_server import Prometheus, answers, free_port

pytestmark = pytest.mark.slow

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
MANY = 100
SERVED = (
    f"nodes:\n  - {{name: n, count: {MANY}, model: H100, gpus: 8}}\n"
    f"jobs:\n  - {{name: train, count: {MANY // 2}, gpus: 16, mfu: 0.4, report: {{}}}}\n"
)

TEXT = """
cluster: c1
nodes:
  - {name: n, count: 20, model: H100, gpus: 8}
jobs:
  - {name: honest, users: [ada], gpus: 64, ofu: 0.4, noise: 0}
faults:
  - {fault: agent_missing, nodes: [n20]}
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


@pytest.mark.prometheus
def test_prometheus_discovers_and_scrapes_every_node(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    discovery = {"url": f"http://{address}/sd", "refresh_interval": "1s"}
    server = Prometheus(
        tmp_path,
        {},
        scrape_configs=[
            {"job_name": "ofu-exporter", "scrape_interval": "5s", "http_sd_configs": [discovery]}
        ],
    )

    def value(query: str) -> float:
        rows = server.query(query, time.time())
        return float(rows[0]["value"][1]) if rows else -1.0

    with simulating(TEXT, tmp_path, "--listen", address, "--speed", "10"):
        try:
            until(server.ready)
            until(lambda: value('count(up{cluster="c1"} == 1)') == 19)
            until(lambda: value('up{instance="n20"}') == 0)
            until(lambda: value("sum(ofu_job_gpu_seconds_total)") > 64 * 60)
            ofu = "sum(ofu_job_utilization_seconds_total) / sum(ofu_job_gpu_seconds_total)"
            assert value(ofu) == pytest.approx(0.4, rel=0.01)
            assert value("min(ofu_exporter_simulated)") == 1
            assert value("count(ofu_job_info)") == 8
        finally:
            server.stop()


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(TEXT)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [*COMMAND, "fleet", "simulate", str(tmp_path / "fleet.yaml"), "--listen", address],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 2
    reason = "Address already in use; --listen takes another"
    assert done.stderr == f"ofu-exporter: cannot listen on {address}: {reason}\n"


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
        answered, _, _ = select.select(asked, [], [], 120)
        assert 0 < len(answered) < MANY
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
