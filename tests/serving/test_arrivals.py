"""What comes before a request: whoever says half of it, or leaves, costs no more than a socket, and no time of ours."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from ofu_exporter.serving import arrivals
from ofu_exporter.serving.arrivals import Arrival, ArrivalQueue
from ofu_exporter.serving.connection_limit import ConnectionLimit, RequestPhase
from tests.helpers.server import Client, serving, tell

pytestmark = pytest.mark.anyio

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
HELLO = b"\x16\x03\x01\x00\x05hello"
"""A record of TLS, whose head says five bytes."""


class Crowd:
    """Arrivals over pairs of sockets, and who has said enough."""

    def __init__(self, is_tls: bool) -> None:
        self.limit = ConnectionLimit()
        self.come: list[Arrival] = []
        self._is_tls = is_tls

    def arrive(self, peer: str = "a") -> tuple[socket.socket, Arrival]:
        """A client's socket, and its arrival, over TCP as the kernel wakes us there."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname())
            accepted, _ = listening.accept()
        accepted.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client, Arrival(accepted, peer, self.limit, self.come.append, self._is_tls)


async def settle() -> None:
    """What was sent by loopback is there; the loop has looked at it."""
    for _ in range(10):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(("is_tls", "said"), [(False, GET), (True, HELLO)])
async def test_it_comes_when_the_last_byte_is_there_which_stays_in_the_kernel(
    is_tls: bool, said: bytes
) -> None:
    crowd = Crowd(is_tls)
    client, arrival = crowd.arrive()
    for byte in said[:-1]:
        client.sendall(bytes([byte]))
        await settle()
    assert (crowd.come, arrival.phase) == ([], RequestPhase.HELLO)
    client.sendall(said[-1:])
    await settle()
    assert (crowd.come, arrival.phase) == ([arrival], RequestPhase.TURN)
    assert arrival.socket.recv(100) == said
    client.close()
    arrival.socket.close()


@pytest.mark.parametrize(
    ("is_tls", "said"),
    [(False, b""), (False, GET[:-2]), (True, b""), (True, HELLO[:3]), (True, HELLO[:-1])],
)
async def test_whoever_leaves_before_is_forgotten_after_few_looks(
    is_tls: bool, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    measure = arrivals.Arrival._has_enough

    def counted(arrival: Arrival) -> bool:
        looks.append(1)
        return measure(arrival)

    monkeypatch.setattr(arrivals.Arrival, "_has_enough", counted)
    crowd = Crowd(is_tls)
    client, _ = crowd.arrive()
    client.sendall(said)
    await settle()
    client.shutdown(socket.SHUT_WR)
    await settle()
    assert (crowd.come, len(crowd.limit)) == ([], 0)
    with suppress(ConnectionResetError):  # what it has said was never read
        assert client.recv(1) == b""
    assert len(looks) <= 3
    client.close()


async def test_over_a_unix_socket_it_comes_with_its_first_bytes() -> None:
    """There the kernel would wake us for each of the others."""
    crowd = Crowd(is_tls=False)
    client, accepted = socket.socketpair()
    accepted.setblocking(False)
    arrival = Arrival(accepted, "", crowd.limit, crowd.come.append, False)
    client.sendall(GET[:9])
    await settle()
    assert crowd.come == [arrival]
    client.close()
    accepted.close()


async def test_what_is_no_tls_is_closed_at_once() -> None:
    crowd = Crowd(is_tls=True)
    client, _ = crowd.arrive()
    client.sendall(GET)
    await settle()
    assert (crowd.come, len(crowd.limit)) == ([], 0)
    client.close()


@pytest.mark.parametrize("said", [b"\x16\x03\x01", b"\x00", b"x" * (16 << 10)])
async def test_what_can_be_no_head_is_the_parsers_to_refuse(said: bytes) -> None:
    crowd = Crowd(is_tls=False)
    client, arrival = crowd.arrive()
    client.sendall(said)
    await settle()
    assert crowd.come == [arrival]
    client.close()
    arrival.socket.close()


def test_over_the_unix_socket_a_head_may_come_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with serving(tell, report_socket=path), Client(str(path)) as client:
        for byte in GET:
            client.send(bytes([byte]))
        assert client.answer()[0] == 200


async def test_one_goes_on_in_each_turn_of_the_peer_with_fewest_and_of_these_the_newest() -> None:
    crowd = Crowd(is_tls=True)
    went: list[Arrival] = []
    line = ArrivalQueue(went.append)
    flood = [crowd.arrive("flood") for _ in range(3)]
    other = crowd.arrive("prometheus")
    gone = crowd.arrive("left")
    for _, arrival in (*flood, other, gone):
        line.add(arrival)
    crowd.limit.close(gone[1])
    for count in range(1, 5):
        await asyncio.sleep(0)
        assert len(went) == count
    assert went == [other[1], *(arrival for _, arrival in reversed(flood))]
    alone, faults = crowd.arrive("left"), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    line.add(alone[1])
    crowd.limit.close(alone[1])
    await asyncio.sleep(0)
    assert (len(went), faults) == (4, [])
    alone[0].close()
    for client, arrival in (*flood, other):
        arrival.abort()
        client.close()
    gone[0].close()
