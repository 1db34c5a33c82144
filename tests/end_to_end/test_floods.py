"""Accepting: nothing that a client does before its first request costs more than a bounded piece of memory."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ofu_exporter.serving.connection_limit import MOST_CONNECTIONS
from tests.bench.process import resident_mib
from tests.helpers.agent import Agent, agent, until
from tests.helpers.certificates import Certificates
from tests.helpers.server import Client

pytestmark = pytest.mark.slow

FLOOD = 1500
"""Connections at once, thrice the limit."""
MOST_MIB = 120
"""Of which an idle agent takes 63 with Python 3.11, 70 with 3.14; 512 connections of TLS 30, or 39 with OpenSSL 3.6."""
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


@pytest.fixture
def secure(certificates: Certificates) -> Iterator[Agent]:
    tls = ("--tls-cert", str(certificates.cert), "--tls-key", str(certificates.key))
    with agent("run", "--source", "simulate", *tls) as running:
        yield running


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def address(running: Agent) -> tuple[str, int]:
    return "127.0.0.1", int(running.url.rpartition(":")[2])


def descriptors(running: Agent) -> int:
    return len(os.listdir(f"/proc/{running.process.pid}/fd"))


def scraped(running: Agent, context: ssl.SSLContext, source: str = "127.0.0.9") -> bytes:
    """The first bytes of a page that is read from an address of its own."""
    with (
        socket.create_connection(address(running), 20, source_address=(source, 0)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(GET)
        return client.recv(12)


def nothing() -> bytes:
    return b""


def half_a_hello() -> bytes:
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(into, out, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()[:100]


def plain_http() -> bytes:
    return GET


@pytest.mark.parametrize("said", [nothing, half_a_hello, plain_http])
def test_a_flood_that_never_shakes_hands_costs_little_and_keeps_no_scrape_out(
    secure: Agent, certificates: Certificates, said: Callable[[], bytes]
) -> None:
    context, first = certificates.context(False), said()
    most = 0
    with ExitStack() as stack:
        for number in range(FLOOD):
            client = stack.enter_context(socket.create_connection(address(secure), 20))
            client.sendall(first)
            if number % 300 == 299:
                assert scraped(secure, context) == b"HTTP/1.1 200"
                most = max(most, descriptors(secure))
        assert most < MOST_CONNECTIONS + 100
        assert resident_mib(secure.process.pid) < MOST_MIB
    assert secure.stop() == 0
    assert not secure.logged("Traceback")


def test_connections_that_have_shaken_hands_cost_little_as_well(
    secure: Agent, certificates: Certificates
) -> None:
    context = certificates.context(False)
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            plain = stack.enter_context(socket.create_connection(address(secure), 20))
            client = context.wrap_socket(plain, server_hostname="127.0.0.1")
            stack.enter_context(client)
        assert scraped(secure, context) == b"HTTP/1.1 200"
        assert resident_mib(secure.process.pid) < MOST_MIB
    assert secure.stop() == 0


def test_without_descriptors_open_connections_go_on_and_the_log_has_a_line() -> None:
    with ExitStack() as stack:
        running = stack.enter_context(agent("run", "--source", "simulate"))
        scraper = stack.enter_context(Client(address(running)))
        scraper.send(GET.replace(b"/metrics", b"/v1/gpus"))
        assert scraper.answer()[0] == 200
        few = descriptors(running) + 5
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (few, few))
        other = ("127.0.0.8", 0)
        crowd = [
            stack.enter_context(
                socket.create_connection(address(running), 20, source_address=other)
            )
            for _ in range(200)
        ]
        assert running.logs("no connection can be accepted")
        for _ in range(3):
            scraper.send(GET.replace(b"/metrics", b"/v1/gpus"))
            assert scraper.answer()[0] == 200
        for client in crowd:
            client.close()
        until(lambda: running.get("/healthz")[0] == 200)
        assert running.stop() == 0
    assert sum("no connection can be accepted" in line for line in running.log) == 1
    assert not running.logged("Traceback")


def why_no_network() -> str:
    """Why a test can have no network of its own here; "" when it can."""
    tried = ["unshare", "--net", "ip", "-6", "addr", "add", "2001:db8::1/64", "dev", "lo"]
    done = subprocess.run(tried, capture_output=True, check=False)
    return "" if done.returncode == 0 else "only root has networks, and IPv6 may be switched off"


@pytest.mark.slow
@pytest.mark.skipif(why_no_network() != "", reason=why_no_network())
def test_a_flood_from_all_addresses_of_an_ipv6_network_keeps_nobody_out() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "tests.helpers.ipv6_flood"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "200\n", done.stderr
