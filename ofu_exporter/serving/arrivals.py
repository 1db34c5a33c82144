"""A connection between its accept and its turn: a socket, and the few bytes that have come in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from ofu_exporter.serving.connection_limit import READ_BYTES, ConnectionLimit, RequestPhase
from ofu_exporter.serving.request_queue import TurnKind, lane_of

_HANDSHAKE = 0x16
"""The first byte of a record of TLS with a ClientHello (RFC 8446, 5.1: ContentType handshake)."""
_RECORD_HEAD = 5
"""Bytes before the content of a record; the last two are its length (RFC 8446, 5.1)."""
_FIRST_PRINTABLE = 0x21
"""What begins below this is no request (RFC 9112, 3), and its refusal needs no more bytes."""


class Arrival:
    """Waits for all of a request's head, or of the first record of TLS, and then for its turn.

    Whoever says nothing, or half of it, or leaves, costs no more than a socket: neither a parser nor keys are made.
    """

    def __init__(
        self,
        accepted: socket.socket,
        peer: str,
        limit: ConnectionLimit,
        go_on: Callable[[Arrival], None],
        is_tls: bool,
    ) -> None:
        """`go_on` takes the socket over when it is this connection's turn."""
        self.socket = accepted
        self.peer = peer
        self.head = b""
        """What has been read of a request; with TLS nothing is."""
        self.patience = RequestPhase.HELLO.patience
        self._limit = limit
        self._go_on = go_on
        self._is_tls = is_tls
        self._record_bytes = 0
        self._watched: asyncio.AbstractEventLoop | None = None

    def look(self) -> None:
        """See what has come in."""
        try:
            lane = self._hello() if self._is_tls else self._request()
        except OSError:  # the client's fault, or its end
            self._limit.close(self)
            return
        if lane is not None:
            self._unwatch()
            self.patience = RequestPhase.TURN.patience
            self._limit.note(self, RequestPhase.TURN)
            self._limit.queue.add(self, lane)
        elif self._watched is None:
            self._limit.note(self, RequestPhase.HELLO)
            self._watched = asyncio.get_running_loop()
            self._watched.add_reader(self.socket, self.look)

    def _request(self) -> TurnKind | None:
        while not _is_whole(self.head):
            try:
                piece = self.socket.recv(READ_BYTES - len(self.head))
            except BlockingIOError:
                return None
            if not piece:
                raise ConnectionAbortedError
            self.head += piece
        return lane_of(self.head)

    def _hello(self) -> TurnKind | None:
        """What came in stays in the kernel, which wakes us when the record is whole, or no more of it can come."""
        buffer = self._limit.buffer
        try:
            seen = self.socket.recv_into(buffer, 0, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        if not seen or buffer[0] != _HANDSHAKE:
            raise ConnectionAbortedError
        length = int.from_bytes(buffer[3:_RECORD_HEAD], "big") if seen >= _RECORD_HEAD else 0
        wanted = min(_RECORD_HEAD + length, READ_BYTES)
        if seen < wanted and wanted != self._record_bytes:
            self._wake_at(wanted)
            return None
        self._wake_at(1)
        return TurnKind.HELLO

    def _wake_at(self, count: int) -> None:
        self._record_bytes = count
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def go_on(self) -> None:
        """Hand the socket over."""
        self._limit.leave(self)
        self._go_on(self)

    def abort(self) -> None:
        """Close the connection at once."""
        self._unwatch()
        self.socket.close()

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._watched.remove_reader(self.socket)
            self._watched = None


def _is_whole(head: bytes) -> bool:
    """Whether a parser can make something of it: a head with its empty line, too much, or what is no request."""
    return bool(head) and (
        head[0] < _FIRST_PRINTABLE
        or len(head) >= READ_BYTES
        or b"\n\r\n" in head
        or b"\n\n" in head
    )
