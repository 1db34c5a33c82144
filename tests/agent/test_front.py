"""The listeners and who is let in."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.agent.test_daemon import QUICK, measured
from tests.helpers.agent import agent, call, until

pytestmark = pytest.mark.slow


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = call("run", "--source", "simulate", "--listen", address)
    assert done.returncode == 2
    reason = "Address already in use; --listen takes another"
    assert done.stderr == f"ofu-exporter: cannot listen on {address}: {reason}\n"


def test_eight_clients_at_once_are_all_answered() -> None:
    with agent("run", "--source", "simulate", *QUICK) as running:
        until(lambda: measured(running) == 8)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: running.get("/metrics")[0], range(200)))
        assert answers == [200] * 200
