"""Accepts connections on a listening socket, a few in each turn of the event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable

from ofu_exporter.serving.arrivals import Arrival, Line
from ofu_exporter.serving.connection_limit import QUIET_SECONDS, ConnectionLimit
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
    """Accepts on one socket; asyncio's own server would count a TLS connection only after its handshake."""

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
        self._hellos = Line(self._open)
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
        if not self._lines.wait("", time.monotonic()):
            log.error("no connection can be accepted, the idlest are closed: %s", error.strerror)
