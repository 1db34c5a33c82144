"""Holds a connection as a bare socket from its accept until its client has sent a whole head, or a TLS hello.

Whoever says nothing, or half of it, costs no more than a socket: neither a parser nor keys are made. A lower limit on
open handshakes does not replace this: silent clients then push out a scraper that has their address.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable

from ofu_exporter.serving.connection_limit import ConnectionLimit, RequestPhase

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


class Line:
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
