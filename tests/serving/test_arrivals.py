"""Before its first turn a connection costs a socket, and takes no place of one that is further."""

from __future__ import annotations

import gc
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ofu_exporter.serving.arrivals import Arrival
from ofu_exporter.serving.connection_limit import MOST_CONNECTIONS, MOST_IN_PHASE, READ_BYTES
from ofu_exporter.serving.connections import Connection
from ofu_exporter.serving.listeners import Listeners
from tests.helpers.certificates import Certificates
from tests.helpers.server import Client, post, serving, tell
from tests.helpers.slow_tls import SlowTls

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


@pytest.fixture
def secure(certificates: Certificates) -> Iterator[Listeners]:
    with serving(tell, tls_cert=certificates.cert, tls_key=certificates.key) as listeners:
        yield listeners


def address(listeners: Listeners) -> tuple[str, int]:
    host, port = listeners.address.getsockname()[:2]
    return host, port


def answered(listeners: Listeners) -> None:
    """Whatever was sent before has been looked at when this returns."""
    with Client(listeners) as witness:
        witness.send(GET)
        assert witness.answer()[0] == 200


def connections() -> int:
    """How many connections there are that have a parser."""
    gc.collect()
    return sum(isinstance(each, Connection) for each in gc.get_objects())


@pytest.mark.parametrize("piece", [1, 7, len(GET) - 1])
def test_a_head_in_pieces_is_answered_when_it_is_whole(piece: int) -> None:
    with serving(tell) as listeners, Client(listeners) as client:
        for begin in range(0, len(GET), piece):
            client.send(GET[begin : begin + piece])
            answered(listeners)
        assert client.answer()[0] == 200


def test_what_comes_with_the_head_is_part_of_the_request() -> None:
    with serving(tell) as listeners, Client(listeners) as client:
        client.send(post(2), b"{}", GET)
        assert client.answer()[2]["pieces"] == [2]
        assert client.answer()[0] == 200


@pytest.mark.parametrize(
    "said", [b"\x00", b"GET\n\n", b"GET / HTTP/1.1\n\n", b"GET /" + b"a" * 5 * READ_BYTES]
)
def test_what_is_no_request_is_refused_without_its_end(said: bytes) -> None:
    with serving(tell) as listeners, Client(listeners) as client:
        client.send(said)
        assert client._until(b"\r\n").startswith(b"HTTP/1.1 400 ")


def test_half_a_head_and_a_client_that_left_have_no_parser() -> None:
    with serving(tell) as listeners, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(Client(listeners)).send(GET[:-1])
            with Client(listeners) as leaving:
                leaving.send(b"G")
        answered(listeners)
        assert connections() < 10


def test_half_a_hello_has_no_parser_and_wakes_nobody_again(
    secure: Listeners, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: Counter[int] = Counter()
    look = Arrival.look

    def counted(arrival: Arrival) -> None:
        looks[id(arrival.socket)] += 1
        look(arrival)

    monkeypatch.setattr(Arrival, "look", counted)
    context = certificates.context(False)
    with ExitStack() as stack:
        for count in (1, 4, 5, 6, 100):
            client = stack.enter_context(SlowTls(address(secure), context))
            client.socket.sendall(client.hello()[:count])
        for _ in range(20):
            with SlowTls(address(secure), context) as witness:
                assert witness.asked(GET).startswith(b"HTTP/1.1 200")
        assert connections() < 20
    assert max(looks.values()) <= 3


def test_a_hello_in_pieces_becomes_a_handshake(
    secure: Listeners, certificates: Certificates
) -> None:
    with SlowTls(address(secure), certificates.context(False)) as client:
        for byte in client.hello():
            client.socket.sendall(bytes([byte]))
        assert client.asked(GET).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"])
def test_whoever_breaks_off_a_hello_or_speaks_no_tls_is_closed(
    secure: Listeners, said: bytes
) -> None:
    with Client(secure) as client:
        client.send(said)
        with suppress(OSError):  # it may be closed already
            client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()


@pytest.mark.slow
def test_a_handshake_is_finished_whatever_its_own_address_begins_meanwhile(
    secure: Listeners, certificates: Certificates
) -> None:
    context = certificates.context(False)
    count = MOST_CONNECTIONS + 2 * max(MOST_IN_PHASE.values())
    with ExitStack() as stack:
        client = stack.enter_context(SlowTls(address(secure), context))
        client.socket.sendall(client.hello())
        assert client.heard()
        half = bytes.fromhex("1603010200 010001fc0303")
        for _ in range(count):
            flood = stack.enter_context(Client(secure))
            flood.send(half)
        with SlowTls(address(secure), context) as later:
            assert later.asked(GET).startswith(b"HTTP/1.1 200")
        assert client.asked(GET).startswith(b"HTTP/1.1 200")
