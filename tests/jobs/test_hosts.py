"""A list of hosts names them in order, or is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.jobs.hosts import MOST_HOSTS, Host, parse_hosts, read_hosts
from tests.helpers.every import every


@every(
    [
        ("node[1-3]", "node1 node2 node3"),
        ("node[08-11],m7", "node08 node09 node10 node11 m7"),
        ("r[1-2]n[1,3]", "r1n1 r1n3 r2n1 r2n3"),
        ("a, b\n c", "a b c"),
        ("a,a,b", "a b"),
        ("n[5]", "n5"),
        ("n[9-10]", "n9 n10"),
        ("n[1-2,7].example.org", "n1.example.org n2.example.org n7.example.org"),
    ]
)
def test_a_list_names_its_hosts_in_order(text: str, names: str) -> None:
    assert [host.name for host in parse_hosts(text, 9846)] == names.split()


@every(
    [
        ("node1", "http://node1:9846"),
        ("node1:80", "http://node1:80"),
        ("10.0.0.1", "http://10.0.0.1:9846"),
        ("fe80::1", "http://[fe80::1]:9846"),
        ("[fe80::1]:80", "http://[fe80::1]:80"),
        ("[fe80::1]", "http://[fe80::1]:9846"),
        ("https://node1/ofu", "https://node1/ofu"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
    ]
)
def test_an_item_is_a_name_or_an_address(item: str, url: str) -> None:
    assert [host.url for host in parse_hosts(item, 9846)] == [url]


def test_names_may_be_those_of_agents_with_tls() -> None:
    hosts = parse_hosts("n[1-2],n3:80,fe80::1,http://n4", 9846, "https")
    assert [host.url for host in hosts] == [
        "https://n1:9846",
        "https://n2:9846",
        "https://n3:80",
        "https://[fe80::1]:9846",
        "http://n4",
    ]


def test_a_password_is_sent_and_not_shown() -> None:
    (host,) = parse_hosts("http://ada:secret@node1:9846", 9846)
    assert host == Host("node1:9846", "http://ada:secret@node1:9846")


@every(["", " , ", "node[", "node]", "node[a]", "node[3-1]", "node[1-2", "n[]", "n[1--2]"])
def test_what_names_no_host_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_hosts(text, 9846)


@every(["n[1-999999999]", "n[1-9][1-9][1-9][1-9]", "n[0-1024]"])
def test_more_hosts_than_can_be_asked_are_refused_at_once(text: str) -> None:
    with pytest.raises(ConfigError, match=f"over {MOST_HOSTS} hosts"):
        parse_hosts(text, 9846)


def test_a_file_lists_hosts_with_comments(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# rack 1\nnode[1-2]  # two\n\nhttps://far:1\n")
    assert [host.name for host in read_hosts(file, 9846)] == ["node1", "node2", "far:1"]


@pytest.mark.parametrize("content", [None, b"", b"# none\n", b"\xff", b"node["])
def test_a_file_without_hosts_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "hosts"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="hosts"):
        read_hosts(file, 9846)
