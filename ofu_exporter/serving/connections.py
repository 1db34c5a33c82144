"""Limits HTTP connections: none stands still for long, never too many are open, and writers let readers go first."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ofu_exporter.support.peers import peer_uid

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
QUIET_SECONDS = 60.0
"""Shortest time between two log lines about a flood."""
TURNS_BETWEEN = 4
"""Turns of the event loop from one request that writes to the next. A request that reads takes five turns from its
connection to its answer, so it waits for about one that writes, however many there are."""
MOST_WAITING_BYTES = 1 << 20
"""Most bytes that are held back; above this they may as well be worked on."""
_READS = (b"GET ", b"HEAD ")
PEER_UID = "ofu.peer_uid"
"""The key of a request's `state` that holds the user at the other end of the Unix socket."""


class RequestPhase(Enum):
    """What a connection waits for; the value is the longest wait in seconds."""

    HEAD = 10.0
    """The client: the first or next request, up to the end of its headers."""
    BODY = 15.0
    """The client: the rest of the request. The limit on a report's body is shorter, and has an answer."""
    ANSWER = 30.0
    """The client: it has to take the answer."""
    WORK = float("inf")
    """Us: the request is being worked on."""


class WriteQueue:
    """Holds back bytes that do not begin a request that reads, until their turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Connection, bytes]] = deque()
        self._bytes = 0
        self._turning = False

    def hold(self, connection: Connection, data: bytes) -> bool:
        """Hold a connection's bytes back, to give them to it later; False when too many are held already."""
        if self._bytes + len(data) > MOST_WAITING_BYTES:
            return False
        self._waiting.append((connection, data))
        self._bytes += len(data)
        if not self._turning:
            self._turning = True
            connection.loop.call_soon(self._turn, connection.loop, 0)
        return True

    def _turn(self, loop: asyncio.AbstractEventLoop, left: int) -> None:
        """One turn of the event loop; the first in the queue goes when `left` is 0."""
        if left:
            loop.call_soon(self._turn, loop, left - 1)
            return
        if not self._waiting:
            self._turning = False
            return
        connection, data = self._waiting.popleft()
        self._bytes -= len(data)
        loop.call_soon(self._turn, loop, TURNS_BETWEEN)
        connection.go_on(data)


class ConnectionLimit:
    """All connections of a server; those that wait for their client are kept in the order in which they began to."""

    def __init__(
        self, most: int = MOST_CONNECTIONS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.write_queue = WriteQueue()
        self._most = most
        self._clock = clock
        self._all: set[Connection] = set()
        self._waiting: OrderedDict[Connection, float] = OrderedDict()
        self._logged_at = float("-inf")

    def enter(self, newcomer: Connection) -> None:
        """Add a connection. When there are too many, the one that has waited longest for its client is closed.

        A client that asks at once, as Prometheus does, is never that one. So a flood of connections that say
        nothing, or little, or do not listen, keeps nobody out.
        """
        if len(self._all) >= self._most:
            self._make_room()
        self._all.add(newcomer)

    def _make_room(self) -> None:
        now = self._clock()
        if now - self._logged_at > QUIET_SECONDS:
            self._logged_at = now
            log.warning("%d connections are open; the idlest are closed for new ones", self._most)
        if self._waiting:
            self.close(next(iter(self._waiting)))
        else:  # all are being answered: losing one is better than having no bound
            self.close(next(iter(self._all)))

    def note(self, connection: Connection, phase: RequestPhase) -> None:
        """Note that a connection has just begun another phase."""
        self._waiting.pop(connection, None)
        if phase is not RequestPhase.WORK and connection in self._all:
            self._waiting[connection] = self._clock()

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def close(self, connection: Connection) -> None:
        """Close a connection at once, whatever is still to be sent."""
        self.leave(connection)
        connection.transport.abort()

    def sweep(self) -> None:
        """Close the connections whose client has kept them waiting for too long."""
        now = self._clock()
        late = [
            connection
            for connection, since in self._waiting.items()
            if now - since > connection.patience
        ]
        for connection in late:
            self.close(connection)


class Connection(H11Protocol):
    """uvicorn's connection, which also knows its Unix socket and says what it waits for."""

    def __init__(self, limit: ConnectionLimit, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._limit = limit
        self._answers = 0
        self._writing_paused = False
        self._step: tuple[int, RequestPhase] | None = None

    @property
    def patience(self) -> float:
        """How long the connection may stay in its phase, in seconds."""
        phase = RequestPhase.WORK if self._step is None else self._step[1]
        unsent = self.transport.get_write_buffer_size() > 0
        return RequestPhase.ANSWER.value if phase is RequestPhase.HEAD and unsent else phase.value

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        own_end = transport.get_extra_info("socket")
        if own_end.family == socket.AF_UNIX:  # some versions of uvicorn do not set this
            self.server = (own_end.getsockname(), None)  # type: ignore[assignment,unused-ignore]
            self.app_state = {PEER_UID: peer_uid(own_end)}
        self._limit.enter(self)
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if data.startswith(_READS) or not self._limit.write_queue.hold(self, data):
            self._receive(data)
        else:
            self.transport.pause_reading()  # one place in the queue for each connection

    def go_on(self, data: bytes) -> None:
        """Receive the bytes that have waited in the queue, and read on."""
        if not self.transport.is_closing():
            self._receive(data)
            if not self.flow.read_paused:
                self.transport.resume_reading()

    def _receive(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        self._answers += 1
        super().on_response_complete()
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
        if self.conn.their_state is h11.IDLE:
            return RequestPhase.HEAD
        if self.conn.their_state is h11.SEND_BODY:
            return RequestPhase.BODY
        answering = self.cycle is not None and not self.cycle.response_complete
        return RequestPhase.WORK if answering and not self._writing_paused else RequestPhase.ANSWER
