"""Where the agent listens: an address, with TLS if wanted, and a Unix socket that it leaves tidy."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.listeners import (
    MOST,
    VARIABLES,
    GivenSockets,
    Listeners,
    given_sockets,
    listen,
    listen_unix,
    tls_context,
)
from ofu_exporter.settings import Settings
from tests.helpers.agent import COMMAND, PATIENCE, SOON, bare_environment
from tests.helpers.certificates import Certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    """asyncio sees to it only on a socket that names its protocol."""
    with listen("127.0.0.1:0") as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_an_address_in_use_is_named() -> None:
    with listen("127.0.0.1:0") as bound:
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"^cannot listen on {address}: "):
            listen(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_url_names_scheme_host_and_port(host: str, certificates: Certificates) -> None:
    if host == "[::1]" and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    tls = {"tls_cert": certificates.cert, "tls_key": certificates.key}
    for scheme, extra in (("http", {}), ("https", tls)):
        listeners = Listeners(Settings.model_validate({"listen": f"{host}:0", **extra}))
        port = listeners.address.getsockname()[1]
        assert listeners.url == f"{scheme}://{host}:{port}"
        listeners.close()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


# The Unix socket.


def test_a_port_alone_is_that_of_both_families() -> None:
    with listen(":0") as bound:
        port = bound.getsockname()[1]
        for host in ("127.0.0.1", *(["::1"] if has_ipv6() else [])):
            socket.create_connection((host, port), 5).close()


def test_a_port_alone_is_that_of_ipv4_where_the_kernel_has_no_ipv6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel refuses a family that it does not have."""
    monkeypatch.setattr(socket, "AF_INET6", 99)
    with listen(":0") as bound:
        assert bound.family == socket.AF_INET
        socket.create_connection(("127.0.0.1", bound.getsockname()[1]), 5).close()


def test_everybody_on_the_node_may_connect(tmp_path: Path) -> None:
    path = tmp_path / "run" / "reports.sock"
    before = os.umask(0o077)
    try:
        with listen_unix(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        os.umask(before)


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    listen_unix(path).close()
    assert path.is_socket()
    listen_unix(path).close()


def test_a_socket_at_which_somebody_listens_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with listen_unix(path):
        with pytest.raises(ConfigError, match="another program listens there"):
            listen_unix(path)
        assert path.is_socket()


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    link = tmp_path / "link"
    link.symlink_to(path)
    for there in (path, link):
        with pytest.raises(ConfigError, match=f"cannot listen on {there}: it is there"):
            listen_unix(there)
    assert path.read_text() == "data"


@pytest.mark.parametrize("name", ["x" * 120, "file/reports.sock"])
def test_a_path_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot listen on "):
        listen_unix(tmp_path / name)


# TLS.


def test_key_and_authority_need_a_certificate(certificates: Certificates) -> None:
    for setting in ({"tls_key": certificates.key}, {"tls_client_ca": certificates.ca}):
        with pytest.raises(ConfigError, match="need --tls-cert"):
            tls_context(Settings.model_validate(setting))


def test_a_file_that_has_to_hold_both_is_named_so(tmp_path: Path) -> None:
    missing = tmp_path / "both.pem"
    with pytest.raises(ConfigError, match=f"^TLS certificate and key {missing}: No such file"):
        tls_context(Settings(tls_cert=missing))


def test_files_that_do_not_do_are_named(certificates: Certificates, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    text.chmod(0o600)
    good = {"tls_cert": certificates.cert, "tls_key": certificates.key}
    for wrong in ({"tls_cert": text}, {"tls_key": text}, {"tls_client_ca": text}):
        with pytest.raises(ConfigError, match=str(text)):
            tls_context(Settings.model_validate({**good, **wrong}))
    with pytest.raises(ConfigError, match="nowhere"):
        tls_context(Settings(tls_cert=tmp_path / "nowhere"))
    certificates.key.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644"):
        tls_context(Settings.model_validate(good))


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


@pytest.mark.slow
def test_the_unix_socket_is_taken_and_its_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with listening() as address, listening(socket.AF_UNIX, str(path)) as reports:
        with started([reports, address], *COMMAND, *DEMO) as process:
            assert asked(address).startswith("HTTP/1.1 200")
            assert asked(reports).startswith("HTTP/1.1 200")
            process.terminate()
            assert process.wait(SOON) == 0
        assert path.is_socket()


@pytest.mark.slow
def test_the_agent_says_what_it_cannot_use_and_ends(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        with started([datagrams], *COMMAND, *DEMO) as process:
            said, _ = process.communicate(timeout=SOON)
            assert process.returncode == 2
    assert "file descriptor 3 (x) from LISTEN_FDS is no listening TCP or Unix stream socket" in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
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


def test_only_its_own_unix_socket_is_removed(tmp_path: Path) -> None:
    """Whoever puts something else there while the agent runs keeps it: a newer agent, or an administrator."""
    path = tmp_path / "report.sock"
    settings = Settings(listen="127.0.0.1:0", report_socket=path)
    Listeners(settings).close()
    assert not path.exists()
    listeners = Listeners(settings)
    path.unlink()
    path.write_text("somebody's file")
    listeners.close()
    assert path.read_text() == "somebody's file"
    path.unlink()
    old = Listeners(settings)
    path.unlink()
    new = Listeners(settings)
    old.close()
    assert path.is_socket()
    new.close()
    assert not path.exists()
    gone = Listeners(settings)
    path.unlink()
    gone.close()
