"""What comes before TLS: whoever says half a hello, or leaves, costs no more than a socket, and no time of ours."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from ofu_exporter.serving import arrivals
from ofu_exporter.serving.arrivals import Arrival, Line
from ofu_exporter.serving.connection_limit import ConnectionLimit, RequestPhase

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
HELLO = b"\x16\x03\x01\x00\x05hello"
"""A record of TLS, whose head says five bytes."""


class Crowd:
    """Arrivals over pairs of sockets, and who has said enough."""

    def __init__(self) -> None:
        self.limit = ConnectionLimit()
        self.come: list[Arrival] = []

    def arrive(self, peer: str = "a") -> tuple[socket.socket, Arrival]:
        """A client's socket, and its arrival, over TCP as the kernel wakes us there."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname())
            accepted, _ = listening.accept()
        accepted.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client, Arrival(accepted, peer, self.limit, self.come.append)


async def settle() -> None:
    """What was sent by loopback is there; the loop has looked at it."""
    for _ in range(10):
        await asyncio.sleep(0.001)


def test_it_comes_when_the_last_byte_is_there_which_stays_in_the_kernel() -> None:
    async def body() -> None:
        crowd = Crowd()
        client, arrival = crowd.arrive()
        for byte in HELLO[:-1]:
            client.sendall(bytes([byte]))
            await settle()
        assert (crowd.come, arrival.phase) == ([], RequestPhase.HELLO)
        client.sendall(HELLO[-1:])
        await settle()
        assert (crowd.come, arrival.phase) == ([arrival], RequestPhase.TURN)
        assert arrival.socket.recv(100) == HELLO
        client.close()
        arrival.socket.close()

    asyncio.run(body())


@pytest.mark.parametrize("said", [b"", HELLO[:3], HELLO[:-1]])
def test_whoever_leaves_before_is_forgotten_after_few_looks(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    measure = arrivals.Arrival._has_enough

    def counted(arrival: Arrival) -> bool:
        looks.append(1)
        return measure(arrival)

    monkeypatch.setattr(arrivals.Arrival, "_has_enough", counted)

    async def body() -> None:
        crowd = Crowd()
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

    asyncio.run(body())


def test_what_is_no_tls_is_closed_at_once() -> None:
    async def body() -> None:
        crowd = Crowd()
        client, _ = crowd.arrive()
        client.sendall(GET)
        await settle()
        assert (crowd.come, len(crowd.limit)) == ([], 0)
        client.close()

    asyncio.run(body())


def test_one_goes_on_in_each_turn_of_the_peer_with_fewest_and_of_these_the_newest() -> None:
    async def body() -> None:
        crowd = Crowd()
        went: list[Arrival] = []
        line = Line(went.append)
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
        for client, arrival in (*flood, other):
            arrival.abort()
            client.close()
        gone[0].close()

    asyncio.run(body())
