"""Sockets that systemd opens and hands over: what is taken, what is refused, and what a restart costs a scrape."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.given_sockets import MOST, VARIABLES, GivenSockets, given_sockets
from tests.helpers.agent import COMMAND, PATIENCE, SOON, bare_environment

AS_SYSTEMD = """
import fcntl, os, sys
given = sys.argv[1].split(",")
copies = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 100) for one in given]
for place, one in enumerate(copies):
    os.dup2(one, 3 + place)
    os.close(one)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(given))}
os.environ["LISTEN_FDNAMES"] = ":".join("x" for _ in given)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Does in the child what systemd does before it starts a program: sd_listen_fds(3)."""
DEMO = ("demo", "--interval", "0.5s", "--listen", "127.0.0.1:1")
"""Nobody asks at this address: an answer comes from what is given."""


@contextlib.contextmanager
def started(given: Sequence[socket.socket], *command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is given these sockets; it is ended with the block."""
    numbers = [one.fileno() for one in given]
    words = [sys.executable, "-c", AS_SYSTEMD, ",".join(map(str, numbers)), *command]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=bare_environment(),
        pass_fds=numbers,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def listening(
    family: int = socket.AF_INET, address: tuple[str, int] | str = ("127.0.0.1", 0)
) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.bind(address)
    bound.listen(8)
    return bound


def asked(where: socket.socket, path: str = "/-/healthy") -> str:
    """Connects, asks and waits for the answer."""
    with socket.socket(where.family, socket.SOCK_STREAM) as client:
        client.settimeout(SOON)
        client.connect(where.getsockname())
        client.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        parts = iter(lambda: client.recv(65536), b"")
        return b"".join(parts).decode()


@pytest.mark.slow
def test_a_scrape_during_a_restart_waits_and_is_answered() -> None:
    with listening() as address:
        with started([address], *COMMAND, *DEMO) as first:
            assert asked(address).startswith("HTTP/1.1 200")
            first.terminate()
            assert first.wait(SOON) == 0
        with socket.create_connection(address.getsockname(), SOON) as waiting:
            waiting.sendall(
                b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            with started([address], *COMMAND, *DEMO):
                assert waiting.recv(65536).startswith(b"HTTP/1.1 200")


def test_the_unix_socket_is_taken_and_its_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with listening() as address, listening(socket.AF_UNIX, str(path)) as reports:
        with started([reports, address], *COMMAND, *DEMO) as process:
            assert asked(address).startswith("HTTP/1.1 200")
            assert asked(reports).startswith("HTTP/1.1 200")
            process.terminate()
            assert process.wait(SOON) == 0
        assert path.is_socket()


def test_the_agent_says_what_it_cannot_use_and_ends(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        with started([datagrams], *COMMAND, *DEMO) as process:
            said, _ = process.communicate(timeout=SOON)
            assert process.returncode == 2
    assert "file descriptor 3 (x) from LISTEN_FDS is no listening TCP or Unix stream socket" in said
    assert len(said.splitlines()) == 1


def test_systemds_own_tool_hands_its_socket_to_the_agent(tmp_path: Path) -> None:
    """It starts the agent at the first connection. The address is then the settings' own."""
    path = tmp_path / "reports.sock"
    agent = [*COMMAND, "demo", "--listen", "127.0.0.1:0"]
    command = ["systemd-socket-activate", f"--listen={path}", *agent]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=bare_environment(),
    ) as process:
        try:
            assert process.stderr is not None
            assert any("Listening on" in line for line in iter(process.stderr.readline, ""))
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(PATIENCE)
                client.connect(str(path))
                client.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert client.recv(65536).startswith(b"HTTP/1.1 200")
        finally:
            process.terminate()
            process.communicate(timeout=SOON)


# Within this process, from another number on than 3.


def environ(count: object = 1, pid: int | None = None, names: str = "") -> dict[str, str]:
    own = str(pid or os.getpid())
    return {"LISTEN_PID": own, "LISTEN_FDS": str(count), "LISTEN_FDNAMES": names, "HOME": "/"}


def taken(given: socket.socket, said: dict[str, str]) -> GivenSockets:
    """What is made of a socket; its number is that of a copy, which the result owns."""
    return given_sockets(said, os.dup(given.fileno()))


def test_nothing_is_taken_that_is_meant_for_another_process() -> None:
    for said in ({}, environ(pid=1), environ(count=0), environ(count="")):
        assert given_sockets(said) == GivenSockets()
        assert not set(VARIABLES) & set(said)


def test_no_child_is_told_of_the_sockets() -> None:
    said = environ(names="http")
    with listening() as given:
        found = taken(given, said)
    assert said == {"HOME": "/"}
    assert found.address is not None
    assert not found.address.get_inheritable()
    assert found.address.proto == socket.IPPROTO_TCP
    found.address.close()


@pytest.mark.parametrize("count", ["x", "-1", "1.5", "\u0663", str(MOST + 1), "9" * 5000])
def test_a_number_of_sockets_that_is_none_is_named(count: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^LISTEN_FDS is .*, which is no number of sockets up to 64"
    ):
        given_sockets(environ(count))


def test_a_descriptor_that_is_no_socket_is_named(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        number = os.dup(file.fileno())
    with pytest.raises(
        ConfigError, match=rf"^file descriptor {number} \(http\) from LISTEN_FDS is no"
    ):
        given_sockets(environ(names="http"), number)
    os.close(number)
    with pytest.raises(ConfigError, match="is no socket: Bad file descriptor"):
        given_sockets(environ(), number)


def test_a_connection_is_no_listener() -> None:
    one, other = socket.socketpair()
    with one, other:
        number = os.dup(one.fileno())
        with pytest.raises(ConfigError, match="use ListenStream= and Accept=no"):
            given_sockets(environ(), number)
        os.close(number)


def test_two_addresses_are_one_too_many() -> None:
    with listening() as one, listening() as other:
        first = os.dup(one.fileno())
        os.dup2(other.fileno(), first + 1)
        with pytest.raises(ConfigError, match="one too many: the agent has one address socket"):
            given_sockets(environ(2), first)
        os.close(first + 1)
