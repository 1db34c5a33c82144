"""Accepts connections, and holds each as a bare socket until its client has sent a whole head, or a TLS hello.

Whoever says nothing, or half of it, costs no more than a socket: neither a parser nor keys are made. A lower limit on
open handshakes does not replace this: silent clients then push out a scraper that has their address.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable

from ofu_exporter.serving.connection_limit import QUIET_SECONDS, ConnectionLimit, RequestPhase
from ofu_exporter.serving.connections import Connection
from ofu_exporter.support.addresses import client_network
from ofu_exporter.support.rate_limit import RateLimit

log = logging.getLogger(__name__)

AT_ONCE = 32
"""Most connections that are accepted in one turn, so that open connections go on in between. It is an eighth of the
limit where that is less, because a connection that gives way to a new one keeps its descriptor until the next turn."""
PAUSE_SECONDS = 0.2
"""How long nothing is accepted after the system had no descriptor or memory for a connection."""


class Acceptor:
    """Accepts on one socket, a few in each turn of the event loop.

    Asyncio's own server would count a TLS connection only after its handshake.
    """

    def __init__(
        self,
        listening: socket.socket,
        connection: Callable[[str], Connection],
        limit: ConnectionLimit,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`connection` makes a connection of a peer that is not open yet."""
        self.tls = tls
        """The TLS of the connections that are accepted from now on."""
        self._listening = listening
        self._connection = connection
        self._limit = limit
        self._hellos = ArrivalQueue(self._open)
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._lines: RateLimit[str] = RateLimit(1 / QUIET_SECONDS, burst=1)
        listening.setblocking(False)

    def start(self) -> None:
        self._again = None
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._listening)
        if self._again is not None:
            self._again.cancel()

    def _accept(self) -> None:
        for _ in range(max(1, min(AT_ONCE, self._limit.most // 8))):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            accepted.setblocking(False)
            peer = client_network(address[0]) if isinstance(address, tuple) else ""
            come = self._open if self.tls is None else self._hellos.add
            Arrival(accepted, peer, self._limit, come, self.tls is not None)

    def _open(self, arrival: Arrival) -> None:
        self._limit.leave(arrival)
        self._connection(arrival.peer).open(arrival.socket, self.tls)

    def _pause(self, error: OSError) -> None:
        """Accept nothing for a moment, and make room; the connections that are open go on."""
        self._loop.remove_reader(self._listening)
        self._limit.make_room()
        self._again = self._loop.call_later(PAUSE_SECONDS, self.start)
        if not self._lines.ask("", time.monotonic()):
            log.error("no connection can be accepted, the idlest are closed: %s", error.strerror)


_HANDSHAKE = 0x16
"""The first byte of a record of TLS with a ClientHello (RFC 8446, 5.1: ContentType handshake)."""
_RECORD_HEAD = 5
"""Bytes before the content of a record; the last two are its length (RFC 8446, 5.1)."""
_LONGEST = 16 << 10
"""Bytes of a record of TLS, and of a head."""
_FIRST_PRINTABLE = 0x21
"""What begins below this is no request (RFC 9112, 3), and its refusal needs no more bytes."""


class Arrival:
    """A connection whose client is waited for. What it has said stays in the kernel."""

    answers = 0

    def __init__(
        self,
        accepted: socket.socket,
        peer: str,
        limit: ConnectionLimit,
        come: Callable[[Arrival], None],
        is_tls: bool,
    ) -> None:
        """`come` is called once, when the client has said enough."""
        self.socket = accepted
        self.peer = peer
        self.phase = RequestPhase.HELLO
        self._limit = limit
        self._come = come
        self._is_tls = is_tls
        self._wakes_at = 1
        self._loop = asyncio.get_running_loop()
        limit.enter(self)
        # By its number: asyncio shows a socket, which is dear.
        self._loop.add_reader(accepted.fileno(), self._look)

    def _look(self) -> None:
        try:
            has_enough = self._has_enough()
        except OSError:  # the client's fault, or its end
            self._limit.close(self)
            return
        if has_enough:
            self._loop.remove_reader(self.socket.fileno())
            self.phase = RequestPhase.TURN
            self._limit.note(self)
            self._come(self)

    def _has_enough(self) -> bool:
        peeked = self.socket.recv(_LONGEST, socket.MSG_PEEK)
        if len(peeked) < self._wakes_at:  # no more will come
            raise ConnectionAbortedError
        wanted = min(_LONGEST, _record_bytes(peeked) if self._is_tls else _head_bytes(peeked))
        if wanted > len(peeked) and self.socket.family == socket.AF_UNIX:
            return True  # there the kernel wakes us for every byte
        self._wakes_at = wanted if wanted > len(peeked) else 1
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._wakes_at)
        return wanted <= len(peeked)

    def abort(self) -> None:
        self._loop.remove_reader(self.socket.fileno())
        self.socket.close()


def _record_bytes(peeked: bytes) -> int:
    """How long the first record of TLS is, as far as is known. Raises ConnectionAbortedError for what is none."""
    if peeked[0] != _HANDSHAKE:
        raise ConnectionAbortedError
    has_head = len(peeked) >= _RECORD_HEAD
    return _RECORD_HEAD + (int.from_bytes(peeked[3:_RECORD_HEAD], "big") if has_head else 0)


def _head_bytes(peeked: bytes) -> int:
    """How many bytes a parser can make something of: a head with its empty line, or what is no request."""
    is_whole = peeked[0] < _FIRST_PRINTABLE or b"\n\r\n" in peeked or b"\n\n" in peeked
    return len(peeked) + (not is_whole)


class ArrivalQueue:
    """Lets one of those that wait go on in every turn of the event loop.

    The peer with fewest goes first, and of one peer the newest: it is the likeliest to be meant.
    """

    def __init__(self, go_on: Callable[[Arrival], None]) -> None:
        self._go_on = go_on
        self._waiting: list[Arrival] = []

    def add(self, arrival: Arrival) -> None:
        self._waiting.append(arrival)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._waiting = [each for each in self._waiting if each.socket.fileno() >= 0]
        if not self._waiting:
            return
        crowds = Counter(each.peer for each in self._waiting)
        first = min(reversed(self._waiting), key=lambda each: crowds[each.peer])
        self._waiting.remove(first)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._go_on(first)
