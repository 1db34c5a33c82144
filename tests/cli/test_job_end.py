"""An epilog gets the summary of its job, and waits for no agent that does not give it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from tests.helpers.agent import Agent
from tests.helpers.in_process import call
from tests.helpers.job_node import Node
from tests.helpers.stranger import UID, stranger

pytestmark = pytest.mark.slow


def stop(node: Node, url: str) -> subprocess.CompletedProcess[str]:
    return call(
        *("job", "stop", "--no-ask", "--job-id", "7"),
        *("--job-dir", str(node.jobs), "--agent", url),
    )


def test_the_epilog_says_what_the_job_did(node: Node, running: Agent) -> None:
    done = stop(node, running.url)
    assert done.returncode == 0
    first, second, *_ = (done.stdout or done.stderr).splitlines()
    assert first == "Job 7, name llama, user ada (ended) SIMULATED, no GPU was measured"
    assert second.startswith("OFU ")
    assert "2 GPUs on" in second


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://", "nonsense", "file:///etc/passwd"])
def test_an_agent_that_is_away_costs_the_epilog_a_line(node: Node, url: str) -> None:
    node.start("7", "0")
    done = stop(node, url)
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ofu-exporter: the agent does not answer: ")
    assert "`ofu-exporter job show` tells later" in line
    assert not list(node.jobs.glob("*.json"))


def test_so_does_one_that_hangs_after_a_while(node: Node) -> None:
    node.start("7", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = stop(node, f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert (done.returncode, done.stdout) == (0, "")
        assert "the agent does not answer: timed out" in done.stderr


def test_so_does_one_that_does_not_see_the_end_in_time(node: Node, running: Agent) -> None:
    """As on a node without a free core. Here another directory is the one whose job ends."""
    other = Node(node.jobs.parent / "other")
    other.start("7", "0")
    done = stop(other, running.url)
    assert (done.returncode, done.stdout) == (0, "")
    assert "the agent has not noticed the job's end in time" in done.stderr


@contextlib.contextmanager
def dripping() -> Iterator[str]:
    """Sends a byte of its headers every tenth of a second, without end."""

    def drip(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while True:
                connection.sendall(b"H")
                time.sleep(0.1)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_an_agent_that_drips_holds_up_nobody(node: Node) -> None:
    """`call` waits for 20 s; the headers would go on for hours."""
    node.start("7", "0")
    with dripping() as url:
        port = url.rpartition(":")[2]
        assert "timed out" in call("job", "show", "7", "--agent", url).stderr
        gathered = call("job", "gather", "7", "--nodes", "127.0.0.1", "--port", port)
        assert "timed out" in gathered.stderr
        done = stop(node, url)
        assert (done.returncode, done.stdout) == (0, "")
        assert "the agent does not answer: timed out" in done.stderr


def test_another_users_words_come_neither_into_the_epilog_nor_onto_the_terminal(node: Node) -> None:
    node.start("7", "0")
    with stranger() as other:
        done = stop(node, other.url)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith(f"ofu-exporter: user {UID} has taken port {other.port}")
        shown = call("job", "show", "7", "--agent", other.url)
        assert shown.returncode != 0
        assert f"user {UID} has taken port" in shown.stderr
        assert "forged" not in done.stderr + shown.stderr
        assert "GET" not in other.heard(), "it was not even asked"
