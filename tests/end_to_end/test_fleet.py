"""A real Prometheus finds the nodes of a simulated fleet by itself, and scrapes them."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.agent import COMMAND, bare_environment, until
from tests.helpers.prometheus_server import Prometheus

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

TEXT = """
cluster: c1
nodes:
  - {name: n, count: 20, model: H100, gpus: 8}
jobs:
  - {name: honest, users: [ada], gpus: 64, ofu: 0.4, noise: 0}
faults:
  - {fault: agent_missing, nodes: [n20]}
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a fleet is served at sixty times the speed."""
    (tmp_path / "fleet.yaml").write_text(TEXT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [*COMMAND, "fleet", "simulate", str(tmp_path / "fleet.yaml")]
    process = subprocess.Popen(
        [*command, "--listen", address, "--speed", "60"],
        stdout=subprocess.DEVNULL,
        env=bare_environment(),
    )
    try:
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_prometheus_discovers_and_scrapes_every_node(address: str, tmp_path: Path) -> None:
    discovery = {"url": f"http://{address}/sd", "refresh_interval": "1s"}
    server = Prometheus(
        tmp_path,
        {},
        scrape_configs=[
            {"job_name": "ofu-exporter", "scrape_interval": "1s", "http_sd_configs": [discovery]}
        ],
    )

    def value(query: str) -> float:
        rows = server.query(query, time.time())
        return float(rows[0]["value"][1]) if rows else -1.0

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
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    reason = "Address already in use; --listen takes another"
    assert done.stderr == f"ofu-exporter: cannot listen on {address}: {reason}\n"
