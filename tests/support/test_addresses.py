"""Addresses of one client count as one, and those of this machine are known."""

from __future__ import annotations

from ofu_exporter.support.addresses import client_network, is_address, is_loopback
from tests.helpers.every import every


@every(
    [
        ("10.0.0.1", "10.0.0.1"),
        ("127.0.0.9", "127.0.0.9"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::2", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("/run/a:socket", "/run/a:socket"),
    ]
)
def test_a_client_of_ipv6_is_its_network(address: str, network: str) -> None:
    assert client_network(address) == network


@every(
    [
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("10.0.0.1", False),
        ("2001:db8::1", False),
        ("localhost", False),
        ("", False),
    ]
)
def test_loopback_is_told_by_the_address_alone(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_a_name_is_no_address() -> None:
    assert not is_address("node1")
    assert is_address("fe80::1%eth0")
