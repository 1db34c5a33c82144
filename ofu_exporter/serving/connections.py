"""uvicorn's connection, which also knows its Unix socket and its certificate, and says what it waits for."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import sys
from asyncio import sslproto
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ofu_exporter.serving.access import CERTIFIED, PEER_UID
from ofu_exporter.serving.connection_limit import ConnectionLimit, RequestPhase
from ofu_exporter.serving.tls import WriterContext

READ_BYTES = 16 << 10
"""Most bytes of a request's head, and most that are read from a connection at once."""
UNSENT_BYTES = 16 << 10
"""Above this an answer counts as not taken, and the next request of the connection waits."""
COLLECT_EVERY = 64
"""The garbage of closed TLS connections is collected after this many. They are cycles of objects, which look few and
small to Python: by itself it would let hundreds of MiB gather."""

_CREDENTIALS = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""

# From 3.11 on asyncio gives every TLS connection a buffer of 256 KiB for its whole life; no record of TLS is larger
# than 16.6 KiB.
if sys.version_info >= (3, 11):
    sslproto.SSLProtocol.max_size = 2 * READ_BYTES


class Connection(H11Protocol):
    """A connection from its accept to its end."""

    closed_tls = 0
    """How many that spoke TLS were closed since garbage was last collected."""

    def __init__(self, limit: ConnectionLimit, peer: str, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.peer = peer
        self.answers = 0
        self._limit = limit
        self._is_tls = False
        self._opening: asyncio.Task[None] | None = None

    def open(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Begin to speak, and count the connection from now on."""
        self._is_tls = tls is not None
        self._limit.enter(self)
        self._opening = self.loop.create_task(self._open(accepted, tls))
        self._opening.add_done_callback(lambda _: self._opened(accepted))

    async def _open(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        patience = RequestPhase.HANDSHAKE.patience if tls else None
        with suppress(OSError):  # the client's fault, and its loss
            await self.loop.connect_accepted_socket(
                lambda: self, accepted, ssl=tls, ssl_handshake_timeout=patience
            )

    def _opened(self, accepted: socket.socket) -> None:
        """Forget a connection that never began."""
        if self.transport is None:
            accepted.close()
            self._limit.leave(self)
            self._count_garbage(self._is_tls)

    @classmethod
    def _count_garbage(cls, is_tls: bool) -> None:
        cls.closed_tls += is_tls
        if cls.closed_tls >= COLLECT_EVERY:
            cls.closed_tls = 0
            gc.collect()

    def abort(self) -> None:
        """Close the connection at once, in whatever state it is."""
        if self.transport is not None:
            self.transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(UNSENT_BYTES)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        own_end = transport.get_extra_info("socket")
        is_unix = own_end.family == socket.AF_UNIX
        if is_unix:  # some versions of uvicorn do not set this
            self.server = (own_end.getsockname(), None)
        uid = _peer_uid(own_end) if is_unix else None
        self.app_state = {CERTIFIED: _is_certified(transport), PEER_UID: uid}
        self._limit.note(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.leave(self)
        super().connection_lost(exc)
        self._count_garbage(self._is_tls)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit.note(self)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection of a client that has said all it has to say, until it has its answer."""
        if self._is_tls or self.phase is not RequestPhase.WORK:
            return False
        self.cycle.keep_alive = False
        return True

    def on_response_complete(self) -> None:
        self.answers += 1
        super().on_response_complete()
        self._limit.note(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit.note(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._limit.note(self)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or the rest of one: its application is told that the client has left.

        An answer that has begun is the last one.
        """
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # it has begun, or is one to HEAD, which has no body
            self.transport.close()

    @property
    def phase(self) -> RequestPhase:
        """What the connection waits for."""
        if self.transport is None:
            return RequestPhase.HANDSHAKE if self._is_tls else RequestPhase.TURN
        if self.flow.write_paused:
            return RequestPhase.UNREAD
        if self.conn.their_state is h11.SEND_BODY:
            return RequestPhase.BODY
        if self.cycle is not None and not self.cycle.response_complete:
            return RequestPhase.WORK
        if self.transport.get_write_buffer_size():
            return RequestPhase.ANSWER
        return RequestPhase.HEAD


def _is_certified(transport: asyncio.BaseTransport) -> bool:
    """Whether the client has shown a certificate of the authority whose clients may write, on this connection."""
    tls = transport.get_extra_info("ssl_object")
    return tls is not None and isinstance(tls.context, WriterContext) and bool(tls.getpeercert())


def _peer_uid(connection: socket.socket) -> int | None:
    """The user who opened the other end of a Unix socket, as the kernel recorded it; None if that is not known."""
    try:
        noted = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return None
    return int(_CREDENTIALS.unpack(noted)[1])
