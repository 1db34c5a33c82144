"""Listens for the agent: its address, with TLS where that is set, and the Unix socket for reports."""

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
from ofu_exporter.settings import Settings

HANDSHAKE_SECONDS = 10.0


class Server(uvicorn.Server):
    """uvicorn at both doors, without its own signal handling: the daemon must release the GPUs first."""

    def __init__(
        self, app: Any, doors: Listeners, stop: asyncio.Event, crowd: ConnectionLimit | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                proxy_headers=False,  # who asks must not be what a header says
                lifespan="off",
                ws="none",  # or a request could leave our connection for another protocol
                timeout_graceful_shutdown=1,
            )
        )
        self._doors = doors
        self._crowd = crowd or ConnectionLimit()
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open both doors; uvicorn's own would want TLS at the Unix socket as well."""
        await super().startup(sockets or [])
        self.servers.append(await self._serve_on(self._doors.address, self._doors.tls))
        if self._doors.unix is not None:
            self.servers.append(await self._serve_on(self._doors.unix, None))

    async def _serve_on(
        self, listening: socket.socket, tls: ssl.SSLContext | None
    ) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._connection,
            sock=listening.dup(),  # closing the server leaves the door open
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if tls else None,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._doors.close()
        await super().shutdown(sockets)

    def _connection(self) -> Connection:
        return Connection(
            self._crowd, config=self.config, server_state=self.server_state, app_state={}
        )

    async def renew(self, settings: Settings) -> None:
        """Read certificates anew; connections that are open stay. Raises ConfigError and keeps the old ones.

        A context is replaced as a whole: one that has once trusted an authority cannot unlearn it.
        """
        if (settings.tls_cert is None) != (self._doors.tls is None):
            raise ConfigError("TLS cannot be switched on or off without a restart")
        if self._doors.tls is None:
            return
        tls = await asyncio.to_thread(tls_context, settings)
        before, self.servers[0] = self.servers[0], await self._serve_on(self._doors.address, tls)
        self._doors.tls = tls
        before.close()

    async def main_loop(self) -> None:
        """Waits to be told to stop; uvicorn's own looks ten times a second, half of our idle CPU."""
        while not self._stop.is_set():
            await self.on_tick(0)  # sets the Date header
            self._crowd.sweep()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 1.0)
