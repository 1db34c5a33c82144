"""Serves on the agent's address, with TLS where that is set, and on the Unix socket for reports."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Generator
from typing import Any

import uvicorn

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.connections import Connection, ConnectionLimit
from ofu_exporter.serving.listeners import BACKLOG, Listeners, tls_context
from ofu_exporter.serving.web_config import WebConfig
from ofu_exporter.settings import Settings

HANDSHAKE_SECONDS = 10.0


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
                ws="none",  # or a request could leave our connection for another protocol
                timeout_graceful_shutdown=1,
            )
        )
        self._listeners = listeners
        self._limit = limit or ConnectionLimit()
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open both listeners; uvicorn's own method would want TLS on the Unix socket as well."""
        await super().startup(sockets or [])
        self.servers.append(await self._serve_on(self._listeners.address, self._listeners.tls))
        if self._listeners.unix is not None:
            self.servers.append(await self._serve_on(self._listeners.unix, None))

    async def _serve_on(
        self, listening: socket.socket, tls: ssl.SSLContext | None
    ) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._connection,
            sock=listening.dup(),  # closing the server leaves the listener open
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if tls else None,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._listeners.close()
        await super().shutdown(sockets)

    def _connection(self) -> Connection:
        return Connection(
            self._limit, config=self.config, server_state=self.server_state, app_state={}
        )

    async def renew(self, settings: Settings, web: WebConfig) -> None:
        """Read certificates anew; open connections stay. Raises ConfigError, and then keeps the old certificates.

        A context is replaced as a whole: it cannot stop trusting an authority that it once trusted.
        """
        tls = await asyncio.to_thread(tls_context, settings, web)
        if (tls is None) != (self._listeners.tls is None):
            raise ConfigError("TLS cannot be switched on or off without a restart")
        if tls is None:
            return
        before, self.servers[0] = (
            self.servers[0],
            await self._serve_on(self._listeners.address, tls),
        )
        self._listeners.tls = tls
        before.close()

    async def main_loop(self) -> None:
        """Wait until the daemon stops; uvicorn's own loop looks ten times a second, half of our idle CPU."""
        while not self._stop.is_set():
            await self.on_tick(0)  # sets the Date header
            self._limit.sweep()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 1.0)
