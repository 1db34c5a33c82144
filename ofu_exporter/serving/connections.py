"""A connection from its first turn to its end: what it waits for, what it has shown, and when it may go on."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from asyncio import sslproto
from email.utils import formatdate
from functools import lru_cache
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ofu_exporter.serving.access import CERTIFIED
from ofu_exporter.serving.arrivals import Arrival
from ofu_exporter.serving.connection_limit import READ_BYTES, ConnectionLimit, RequestPhase
from ofu_exporter.serving.exchange import Exchange
from ofu_exporter.serving.request_queue import TurnKind, lane_of
from ofu_exporter.serving.tls import WriterContext
from ofu_exporter.support.peers import peer_uid

UNSENT_BYTES = 16 << 10
"""Above this an answer counts as not taken, and the next request of the connection waits."""

# asyncio gives every TLS connection a buffer of 256 KiB for its whole life; no record of TLS is larger than 16.6 KiB.
sslproto.SSLProtocol.max_size = 2 * READ_BYTES
PEER_UID = "ofu.peer_uid"
"""The key of a request's `state` that holds the user at the other end of the Unix socket."""


class Connection(H11Protocol, asyncio.BufferedProtocol):
    """uvicorn's connection, which also knows its Unix socket and says what it waits for."""

    def __init__(self, limit: ConnectionLimit, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.conn = Exchange(READ_BYTES)  # type: ignore[assignment]
        self.peer = ""
        self._limit = limit
        self._accepted: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._opening: asyncio.Task[None] | None = None
        self._handshaking = False
        self._answers = 0
        self._completing = False
        self._writing_paused = False
        self._queued = False
        self._held = b""
        self._step: tuple[int, RequestPhase] | None = None

    def open(self, arrival: Arrival, tls: ssl.SSLContext | None) -> None:
        """Take over a connection whose first turn it is, and count it from now on."""
        self.peer, self._tls = arrival.peer, tls
        self._accepted, self._held = arrival.socket, arrival.head
        self._handshaking = tls is not None
        self._limit.enter(self)
        self._note()
        self._opening = self.loop.create_task(self._open(arrival.socket))

    async def _open(self, accepted: socket.socket) -> None:
        self._accepted = None  # from here on the transport closes it
        patience = RequestPhase.HANDSHAKE.patience if self._tls else None
        try:
            await self.loop.connect_accepted_socket(
                lambda: self, accepted, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except OSError:  # the client's fault, and its loss
            self._limit.leave(self)
        else:
            if self._held and not self._queued:
                self.go_on()
        finally:
            self._handshaking = False
            if self.transport is None:
                self._limit.count_garbage()

    def abort(self) -> None:
        """Close the connection at once, in whatever state it is."""
        if self.transport is not None:
            self.transport.abort()
            return
        if self._opening is not None:
            self._opening.cancel()
        if self._accepted is not None:
            self._accepted.close()

    @property
    def patience(self) -> float:
        """How long the connection may stay in its phase, in seconds."""
        phase = RequestPhase.WORK if self._step is None else self._step[1]
        unsent = self.transport is not None and self.transport.get_write_buffer_size() > 0
        return (RequestPhase.ANSWER if phase is RequestPhase.HEAD and unsent else phase).patience

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(UNSENT_BYTES)
        own_end = transport.get_extra_info("socket")
        if own_end.family == socket.AF_UNIX:  # some versions of uvicorn do not set this
            self.server = (own_end.getsockname(), None)  # type: ignore[assignment,unused-ignore]
        self._handshaking = False
        self.app_state = {CERTIFIED: _is_certified(transport), PEER_UID: _peer(own_end)}
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.leave(self)
        self._held = b""
        super().connection_lost(exc)
        if self.scheme == "https":
            self._limit.count_garbage()

    @property
    def is_certified(self) -> bool:
        return bool(self.app_state.get(CERTIFIED))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._limit.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._limit.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Hold the bytes until it is this connection's turn."""
        self._held += data
        self._wait(lane_of(self._held))

    def handle_events(self) -> None:
        """Work on what has come in; what came in before the last answer was complete waits for its turn."""
        if self._completing and self.conn.trailing_data[0]:
            self._wait(TurnKind.PIPELINED)
        else:
            super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or the rest of one: its application is told that the client has left.

        An answer that has begun is the last one, so the connection just ends.
        """
        may_answer = self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if may_answer:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _wait(self, lane: TurnKind) -> None:
        self._unset_keepalive_if_required()
        self.transport.pause_reading()
        if not self._queued:  # one place in the queue for each connection
            self._queued = True
            self._limit.queue.add(self, lane)

    def go_on(self) -> None:
        """Work on the bytes that have waited in the queue, and read on."""
        if not self.transport.is_closing():
            self._work()

    def _work(self) -> None:
        self._queued = False
        own = self.config.encoded_headers
        self.server_state.default_headers = [(b"date", _date(int(time.time()))), *own]
        data, self._held = self._held, b""
        if data:
            super().data_received(data)
        else:
            super().handle_events()
        self._note()
        if not (self.flow.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def on_response_complete(self) -> None:
        self._answers += 1
        self._completing = True
        super().on_response_complete()
        self._completing = False
        self._note()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing_paused = True
        self._note()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing_paused = False
        self._note()

    def _note(self) -> None:
        """Tell the limit about a new phase. More bytes of the same headers or body are no new phase."""
        step = (self._answers, self._phase())
        if step != self._step:
            self._step = step
            self._limit.note(self, step[1])

    def _phase(self) -> RequestPhase:
        if self._handshaking:
            return RequestPhase.HANDSHAKE
        if self._writing_paused:
            return RequestPhase.UNREAD
        if self.conn.their_state is h11.IDLE:
            return RequestPhase.HEAD
        if self.conn.their_state is h11.SEND_BODY:
            return RequestPhase.BODY
        answering = self.cycle is not None and not self.cycle.response_complete
        return RequestPhase.WORK if answering else RequestPhase.ANSWER


def _is_certified(transport: asyncio.BaseTransport) -> bool:
    """Whether the client has shown a certificate of the authority whose clients may write, on this connection."""
    tls = transport.get_extra_info("ssl_object")
    return tls is not None and isinstance(tls.context, WriterContext) and bool(tls.getpeercert())


def _peer(own_end: socket.socket) -> int | None:
    """The user at the other end of the Unix socket; None of an address."""
    return peer_uid(own_end) if own_end.family == socket.AF_UNIX else None


@lru_cache(maxsize=1)
def _date(unix: int) -> bytes:
    """The time as HTTP writes it (RFC 9110, 5.6.7)."""
    return formatdate(unix, usegmt=True).encode()
