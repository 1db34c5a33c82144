"""No token goes to a port that another user has taken, and its words are not believed: real users, real sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from ofu_exporter.client import port_owner
from ofu_exporter.client.channel import Channel
from ofu_exporter.client.port_owner import refuse_stranger
from tests.doubles.report_agent import report_agent
from tests.helpers.agent import SOON
from tests.helpers.every import every
from tests.helpers.stranger import UID, stranger

REPORT = b'{"job_id": "7", "mfu": 0.4, "start": 1000.0, "end": 1010.0}'


@every(product(["127.0.0.1", "0.0.0.0", "::"], [True, False]))
def test_a_token_is_not_sent_to_another_user(host: str, answers: bool) -> None:
    with stranger(host, answers=answers) as other:
        channel = Channel(other.url, {})
        for _ in range(2):
            with pytest.raises(PermissionError, match=f"user {UID} has taken port {other.port}"):
                channel.post(REPORT, "s3cret-token")
        channel.close()
        assert "s3cret" not in other.heard()


def test_a_token_is_not_sent_over_ipv6_either() -> None:
    with stranger("::1") as other:
        with pytest.raises(PermissionError):
            Channel(f"http://[::1]:{other.port}", {}).post(REPORT, "s3cret-token")
        assert "s3cret" not in other.heard()


def test_a_connection_that_was_opened_without_a_token_is_looked_at_when_there_is_one() -> None:
    with stranger() as other:
        channel = Channel(other.url, {})
        assert channel.post(REPORT, "").status == 200
        with pytest.raises(PermissionError):
            channel.post(REPORT, "s3cret-token")
        channel.close()
        assert "s3cret" not in other.heard()


def test_a_connection_that_was_cut_off_is_opened_anew() -> None:
    """By an agent that was restarted, say: a kept connection then has no other end to look at."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as caller:
        server.settimeout(SOON)
        channel = Channel(f"http://127.0.0.1:{server.getsockname()[1]}", {})
        first = caller.submit(channel.post, REPORT, "")
        with answered(server) as (kept, _):
            assert first.result(SOON).status == 200
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        second = caller.submit(channel.post, REPORT, "s3cret-token")
        with answered(server) as (_, received):
            assert second.result(SOON).status == 200
        channel.close()
    assert b"Bearer s3cret-token" in received


@contextlib.contextmanager
def answered(server: socket.socket) -> Iterator[tuple[socket.socket, bytes]]:
    """The next connection with the report on it, which is answered and then kept until the end of the block."""
    connection, _ = server.accept()
    with connection:
        received = b""
        while REPORT not in received:
            received += connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        yield connection, received


@every([str(UID), "nobody"])
def test_the_agents_user_may_be_named(named: str) -> None:
    uid = UID if named.isdecimal() else 65534
    with stranger(uid=uid) as other:
        channel = Channel(other.url, {"OFU_EXPORTER_AGENT_USER": named})
        assert channel.post(REPORT, "s3cret-token").status == 200
        channel.close()


def test_the_agents_user_is_known_by_its_folder_in_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ofu-exporter"
    (folder / "agent").mkdir(parents=True)
    monkeypatch.setattr(port_owner, "RUN", folder)
    with stranger() as other, socket.create_connection(("127.0.0.1", other.port)) as connection:
        with pytest.raises(PermissionError):
            refuse_stranger(connection, {})
        os.chown(folder / "agent", UID, UID)
        refuse_stranger(connection, {})
        folder.chmod(0o777)  # now anybody could have put the folder there
        with pytest.raises(PermissionError):
            refuse_stranger(connection, {})


@every(["", "no-such-user"])
def test_ones_own_agent_is_trusted(named: str) -> None:
    with report_agent() as agent:
        channel = Channel(agent.url, {"OFU_EXPORTER_AGENT_USER": named})
        assert channel.post(REPORT, "s3cret-token").status == 200
        channel.close()
    assert agent.headers[0]["authorization"] == "Bearer s3cret-token"


def test_another_port_of_another_user_does_not_matter() -> None:
    with stranger(), report_agent() as agent:
        channel = Channel(agent.url, {})
        assert channel.post(REPORT, "s3cret-token").status == 200
        channel.close()


def test_a_machine_that_does_not_say_whose_its_sockets_are_gets_no_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = tmp_path / "tcp"
    monkeypatch.setattr(port_owner, "TABLES", (missing, tmp_path / "tcp6"))
    with report_agent() as agent:
        channel = Channel(agent.url, {})
        with pytest.raises(FileNotFoundError, match="tcp"):
            channel.post(REPORT, "s3cret-token")
        channel.close()
    assert not agent.headers
