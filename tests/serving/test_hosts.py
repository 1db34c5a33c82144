"""Names under which the agent is read: a web page with a name of its own reads nothing."""

from __future__ import annotations

import itertools
import socket
from typing import Any

import httpx
import pytest

from ofu_exporter.serving.hosts import Hosts
from tests.helpers.agent import agent
from tests.helpers.every import every
from tests.helpers.server import Client

OWN = "node7.hpc.example"


def request(
    host: str, path: str = "/v1/jobs", address: str = "127.0.0.1", scheme: str = "http"
) -> dict[str, Any]:
    return {
        "scheme": scheme,
        "path": path,
        "server": (address, 9846),
        "headers": [(b"host", host.encode())],
    }


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9846",
        "10.0.0.7",
        "[::1]:9846",
        "[fe80::1%25eth0]",
        "localhost:8080",
        "LOCALHOST.",
        "node7",
        "node7.hpc.example:9846",
        "ofu.monitoring.svc",
        "ofu.monitoring.svc.cluster.local:9846",
    ],
)
def test_addresses_and_names_that_nobody_else_can_have_are_read(host: str) -> None:
    assert Hosts(own_names=[OWN]).admits(request(host))


@every(
    itertools.product(
        [
            "evil.example",
            "evil.example:9846",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "xlocal.evil",
            "node7.evil.example",
            "evil.example.",
            "",
            ":9846",
            "evil.svc.example",
        ],
        ["/v1/jobs", "/v1/jobs/7", "/v1/gpus", "/", "/metrics"],
    )
)
def test_any_other_name_is_refused_over_loopback(host: str, path: str) -> None:
    assert not Hosts(own_names=[OWN]).admits(request(host, path))


def test_two_names_or_none_are_refused() -> None:
    twice = request("localhost")
    twice["headers"] *= 2
    assert not Hosts().admits(twice)
    assert not Hosts().admits(twice | {"headers": []})


def test_prometheus_reads_the_page_of_metrics_under_any_name_of_the_node() -> None:
    hosts = Hosts()
    assert hosts.admits(request("gpu-1.site.example", "/metrics", "10.0.0.7"))
    assert not hosts.admits(request("gpu-1.site.example", "/v1/jobs", "10.0.0.7"))


def test_so_it_does_where_the_page_has_another_path() -> None:
    hosts = Hosts(telemetry_path="/ofu")
    assert hosts.admits(request("gpu-1.site.example", "/ofu", "10.0.0.7"))
    assert hosts.admits(request("gpu-1.site.example", "/metrics", "10.0.0.7"))
    assert not Hosts().admits(request("gpu-1.site.example", "/ofu", "10.0.0.7"))


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/-/healthy", "/-/ready"])
def test_probes_ask_under_any_name(path: str) -> None:
    assert Hosts().admits(request("evil.example", path))


def test_with_tls_or_by_the_unix_socket_the_name_does_not_matter() -> None:
    assert Hosts().admits(request("evil.example", scheme="https"))
    assert Hosts().admits(request("evil.example") | {"server": ("/run/ofu.sock", None)})


def test_the_setting_adds_names_and_domains_until_it_is_changed() -> None:
    hosts = Hosts("ofu.site.example, .cluster.example")
    assert hosts.matches("ofu.site.example")
    assert hosts.matches("node7.cluster.example")
    assert not hosts.matches("cluster.example.evil.example")
    assert not hosts.matches("evilcluster.example")
    hosts.allow("*")
    assert hosts.matches("evil.example")
    hosts.allow("")
    assert not hosts.matches("ofu.site.example")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "host", "expected"),
    [
        ("http://127.0.0.1:9846/metrics", "127.0.0.1", 200),
        ("HTTP://localhost/v1/jobs?x=a/b", "whatever", 200),
        ("http://127.0.0.1:9846", "127.0.0.1", 200),
        ("http://127.0.0.1:9846/nothing", "127.0.0.1", 404),
        ("http://evil.example/v1/jobs", "localhost", 421),
        ("http:///v1/jobs", "localhost", 421),
    ],
)
def test_a_target_with_a_host_is_read_under_that_host(
    target: str, host: str, expected: int
) -> None:
    """As a client sends it that takes the agent for its proxy (curl -x); its Host counts no more (RFC 9112, 3.2.2)."""
    with agent("run", "--source", "simulate") as running:
        address, port = running.url.removeprefix("http://").split(":")
        with Client((address, int(port))) as client:
            client.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert client.socket.recv(12) == b"HTTP/1.1 %d" % expected


@pytest.mark.slow
def test_a_browser_that_is_led_to_the_agent_reads_nothing() -> None:
    with agent("run", "--source", "simulate", "--allowed-hosts", "ofu.site.example") as running:
        host, port = running.url.removeprefix("http://").split(":")

        def status(path: str, name: str) -> int:
            with Client((host, int(port))) as client:
                head = f"GET {path} HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n"
                client.send(head.encode())
                return int(client._until(b"\r\n\r\n").split()[1])

        for path in ("/v1/jobs", "/v1/gpus", "/metrics", "/"):
            assert status(path, "evil.example") == 421
            for name in ("localhost", "127.0.0.1", "ofu.site.example", socket.gethostname()):
                assert status(path, name) == 200
        named = {"Host": "ofu-exporter-node.monitoring:9846"}
        report = httpx.post(
            f"{running.url}/v1/mfu", json={"job_id": "1", "mfu": 0.4}, headers=named
        )
        assert report.status_code != 421, "jobs report under the name of a service"
        refused = running.values("ofu_exporter_http_requests_total", code="421")
        assert sum(refused) == 4
