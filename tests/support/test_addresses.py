"""Addresses of one client count as one, and those of this machine are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.support.addresses import client_network, is_address, is_loopback
from tests.helpers.agent import call
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("top", "--hosts", "URL", "--once"),
        ("job", "show", "1", "--agent", "URL"),
        ("job", "stop", "--job-id", "1", "--agent", "URL"),
        ("tail", "LOG", "--agent", "URL", "--job", "1"),
        ("pause", "--agent", "URL", "--wait", "0s"),
        ("resume", "--agent", "URL", "--wait", "0s"),
        ("check", "--source", "dcgm-exporter", "--url", "URL/metrics"),
        ("fleet", "report", "--prometheus", "URL"),
        ("fleet", "job", "1", "--prometheus", "URL"),
    ],
)
def test_no_command_prints_a_password_even_if_it_has_a_slash(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("nothing\n")
    url, log = "http://ada:hun/ter2@127.0.0.1:9", str(tmp_path / "log")
    own = ("--pause-file", str(tmp_path / "pause")) if words[0] in ("pause", "resume") else ()
    given = [each.replace("URL", url).replace("LOG", log) for each in words]
    done = call(*given, *own, env={"OFU_SCHEDULER": "none"})
    said = done.stdout + done.stderr
    is_hook = words[:2] == ("job", "stop")  # which fails no job
    assert done.returncode != 0 or is_hook
    assert "127.0.0.1:9" in said or "in a password, / is written %2F" in said or is_hook
    assert "hun" not in said
    assert "ter2" not in said
