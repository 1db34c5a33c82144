"""Serves on the agent's address, with TLS where that is set, and on the Unix socket for reports."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import Generator
from functools import partial
from typing import Any

import uvicorn
from anyio import to_thread
from uvicorn.protocols.http.h11_impl import H11Protocol

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.access import CERTIFIED
from ofu_exporter.serving.arrivals import Acceptor
from ofu_exporter.serving.connection_limit import ConnectionLimit, RequestPhase
from ofu_exporter.serving.connections import READ_BYTES, Connection
from ofu_exporter.serving.listeners import Listeners, tls_context
from ofu_exporter.serving.web_config import WebConfig
from ofu_exporter.settings import Settings
from ofu_exporter.support.patience import soon

TLS_SECONDS = 10.0
"""How long the files of certificates and keys may take at a reload."""
GRACE_SECONDS = 1
"""How long what is being answered may take at a stop."""
PAGES_AT_ONCE = 4
"""Most plain functions that answer at once: threads take the interpreter in turns, and a scrape waits for each turn."""
TICK_SECONDS = 1.0
"""Time between two looks for clients that are late. uvicorn would wake ten times as often: most of what an idle agent
costs."""
UNFINISHED = {*RequestPhase} - {RequestPhase.HEAD, RequestPhase.ANSWER, RequestPhase.WORK}
"""Phases of connections that would hold up a stop: their client has to do something first."""
READ_SECONDS = 0.5
"""How long a client may take for its answer at a stop; below the grace, or uvicorn logs it as an error of ours."""


class Server(uvicorn.Server):
    """uvicorn on both listeners, without its own signal handling: the daemon must release the GPUs first."""

    def __init__(
        self,
        app: Any,
        listeners: Listeners,
        stop: asyncio.Event,
        limit: ConnectionLimit | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                proxy_headers=False,  # a header must not decide who asks
                lifespan="off",
                http=H11Protocol,  # it bounds heads; another parser may be installed
                h11_max_incomplete_event_size=READ_BYTES,
                ws="none",  # or a request could leave our connection for another protocol
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._listeners = listeners
        self._limit = ConnectionLimit() if limit is None else limit
        self._acceptors: list[Acceptor] = []
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open both listeners; uvicorn's own method would want TLS on the Unix socket as well."""
        await super().startup(sockets or [])
        to_thread.current_default_thread_limiter().total_tokens = PAGES_AT_ONCE
        self._acceptors = [
            Acceptor(self._listeners.address, self._connection, self._limit, self._listeners.tls)
        ]
        if self._listeners.unix is not None:
            self._acceptors.append(Acceptor(self._listeners.unix, self._connection, self._limit))
        gc.freeze()  # what is there by now stays: a collection need not look through it, which takes 50 ms
        for acceptor in self._acceptors:
            acceptor.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        self._listeners.close()
        self._limit.close_in(*UNFINISHED)
        asyncio.get_running_loop().call_later(READ_SECONDS, self._limit.close_in, *RequestPhase)
        await super().shutdown(sockets)

    def _connection(self, peer: str) -> Connection:
        state = self.server_state
        return Connection(self._limit, peer, config=self.config, server_state=state, app_state={})

    async def renew(self, settings: Settings, web: WebConfig) -> None:
        """Read certificates anew. Raises ConfigError, and then keeps the old certificates.

        A context is replaced as a whole: it cannot stop trusting an authority that it once trusted. Open
        connections stay, but those that have shown a certificate end with their answer when other authorities
        are trusted now, and those that may be about to show one at once: one of these may be withdrawn.
        """
        tls = await soon(TLS_SECONDS, "TLS files", partial(tls_context, settings, web))
        if (tls is None) != (self._listeners.tls is None):
            raise ConfigError("TLS cannot be switched on or off without a restart")
        if tls is None:
            return
        before, self._listeners.tls = self._listeners.tls, tls
        self._acceptors[0].tls = tls
        if before is not None and tls.get_ca_certs(True) != before.get_ca_certs(True):
            self._end_certified()

    def _end_certified(self) -> None:
        self._limit.close_in(RequestPhase.HANDSHAKE)
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection) and connection.app_state.get(CERTIFIED):
                connection.shutdown()

    async def main_loop(self) -> None:
        # uvicorn dates its answers anew in every tenth tick, of which 0 is one.
        while not (self._stop.is_set() or await self.on_tick(0)):
            self._limit.sweep()
            if self._listeners.tls is not None:
                self._listeners.tls.warn_once(time.time())
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), TICK_SECONDS)
