"""HTTP connections: none stands still for long, never too many are open, and what writes lets readers go first."""

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

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
QUIET_SECONDS = 60.0
"""A flood is logged once in this time."""
TURNS_BETWEEN = 4
"""Of the event loop, from one request that writes to the next. One that reads takes five from its connection
to its answer, so it waits for about one of the others, however many there are."""
MOST_WAITING_BYTES = 1 << 20
"""More than this is not held back: it may as well be worked on."""
_READS = (b"GET ", b"HEAD ")


class RequestPhase(Enum):
    """What a connection waits for; the value is for how many seconds it may."""

    HEAD = 10.0
    """The client's: the first or next request, up to the end of its headers."""
    BODY = 15.0
    """The client's: the rest of the request. The limit on a report's body is shorter, and is answered."""
    ANSWER = 30.0
    """The client's: to take the answer."""
    WORK = float("inf")
    """Ours."""


class WriteQueue:
    """Where bytes that do not begin a request that reads wait for their turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Connection, bytes]] = deque()
        self._bytes = 0
        self._turning = False

    def joined(self, connection: Connection, data: bytes) -> bool:
        """Whether the connection's bytes are held back, and given to it later; not when too many are already."""
        if self._bytes + len(data) > MOST_WAITING_BYTES:
            return False
        self._waiting.append((connection, data))
        self._bytes += len(data)
        if not self._turning:
            self._turning = True
            connection.loop.call_soon(self._turn, connection.loop, 0)
        return True

    def _turn(self, loop: asyncio.AbstractEventLoop, left: int) -> None:
        """One of the event loop; the first in line goes when `left` is 0."""
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
    """All connections of a server, those that wait for their client in the order in which they began to."""

    def __init__(
        self, most: int = MOST_CONNECTIONS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.line = WriteQueue()
        self._most = most
        self._clock = clock
        self._all: set[Connection] = set()
        self._waiting: OrderedDict[Connection, float] = OrderedDict()
        self._logged_at = float("-inf")

    def enter(self, newcomer: Connection) -> None:
        """Take it in. The one that has waited for its client for longest gives way when there are too many.

        A client that asks at once, as Prometheus does, is never that one, so a flood of connections
        that say nothing, or little, or do not listen, keeps nobody out.
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
            self.turn_out(next(iter(self._waiting)))
        else:  # every one is being answered: rather lose one than have no bound
            self.turn_out(next(iter(self._all)))

    def note(self, connection: Connection, phase: RequestPhase) -> None:
        """It has just gone into another phase."""
        self._waiting.pop(connection, None)
        if phase is not RequestPhase.WORK and connection in self._all:
            self._waiting[connection] = self._clock()

    def leave(self, connection: Connection) -> None:
        """It is closed."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def turn_out(self, connection: Connection) -> None:
        """Close it at once, whatever is still to be sent."""
        self.leave(connection)
        connection.transport.abort()

    def sweep(self) -> None:
        """Close those whose client has kept them waiting for too long."""
        now = self._clock()
        late = [
            connection
            for connection, since in self._waiting.items()
            if now - since > connection.patience
        ]
        for connection in late:
            self.turn_out(connection)


class Connection(H11Protocol):
    """uvicorn's connection, which says where it comes from and what it waits for."""

    def __init__(self, limit: ConnectionLimit, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._limit = limit
        self._answers = 0
        self._writing_paused = False
        self._step: tuple[int, RequestPhase] | None = None

    @property
    def patience(self) -> float:
        """How long it may stay as it is, in seconds."""
        phase = RequestPhase.WORK if self._step is None else self._step[1]
        unsent = self.transport.get_write_buffer_size() > 0
        return RequestPhase.ANSWER.value if phase is RequestPhase.HEAD and unsent else phase.value

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        own_end = transport.get_extra_info("socket")
        if own_end.family == socket.AF_UNIX:  # some uvicorns say nothing of it
            self.server = (own_end.getsockname(), None)  # type: ignore[assignment,unused-ignore]
        self._limit.enter(self)
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if data.startswith(_READS) or not self._limit.line.joined(self, data):
            self._take(data)
        else:
            self.transport.pause_reading()  # one place in line a connection

    def go_on(self, data: bytes) -> None:
        """Take what has waited in line, and read on."""
        if not self.transport.is_closing():
            self._take(data)
            if not self.flow.read_paused:
                self.transport.resume_reading()

    def _take(self, data: bytes) -> None:
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
        """Tell the limit if it has come further. More bytes of the same headers or body are no step."""
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
