"""Serves an application of a test's own by the agent's server, and speaks to it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from ofu_exporter.serving.app import AppLayer
from ofu_exporter.serving.connection_limit import ConnectionLimit
from ofu_exporter.serving.guard import WRITER
from ofu_exporter.serving.listeners import Listeners
from ofu_exporter.serving.server import Server
from ofu_exporter.serving.web_config import NO_WEB_CONFIG, WebConfig
from ofu_exporter.settings import Settings
from tests.helpers.agent import SOON, until


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what reached it: the length of the body, in how many pieces, and the writer's way."""
    pieces = []
    message = await receive()
    pieces.append(len(message["body"]))
    while message.get("more_body"):
        message = await receive()
        pieces.append(len(message["body"]))
    writer = scope.get(WRITER)
    body = json.dumps({"pieces": pieces, "way": writer and writer.warrant.value}).encode()
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def behind(layer: AppLayer, app: ASGIApp) -> ASGIApp:
    """The application behind a layer, in the form in which uvicorn takes one: a coroutine function."""

    async def layered(scope: Scope, receive: Receive, send: Send) -> None:
        await layer(app, scope, receive, send)

    return layered


@contextlib.contextmanager
def serving(
    app: ASGIApp,
    limit: ConnectionLimit | None = None,
    web: WebConfig = NO_WEB_CONFIG,
    **settings: Any,
) -> Iterator[Listeners]:
    """Runs the server until the block ends; a port of its choice unless `listen` says otherwise."""
    listeners = Listeners(Settings(**{"listen": "127.0.0.1:0", **settings}), web)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    server = Server(app, listeners, stop, limit)
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(),))
    thread.start()
    try:
        until(lambda: server.started)
        yield listeners
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SOON)
        loop.close()


def post(length: int | None = None, *headers: str, path: str = "/v1/mfu") -> bytes:
    """The head of a request that writes; chunked without a length."""
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", size, *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


class Client:
    """One connection."""

    def __init__(self, listeners_or_address: Listeners | tuple[str, int] | str) -> None:
        where = listeners_or_address
        if isinstance(where, Listeners):
            where = where.address.getsockname()[:2]
        family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(SOON)
        self.socket.connect(where)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.socket.sendall(part)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and body, which must be JSON."""
        head = self._until(b"\r\n\r\n").decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ") for line in lines)}
        body = self._bytes(int(headers["content-length"]))
        return int(first.split()[1]), headers, json.loads(body)

    def is_closed(self) -> bool:
        """Whether the server has closed it; waits until it does or sends."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._unread:
            self._read()
        head, _, self._unread = self._unread.partition(mark)
        return head

    def _bytes(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._read()
        body, self._unread = self._unread[:count], self._unread[count:]
        return body

    def _read(self) -> None:
        got = self.socket.recv(65536)
        assert got, f"closed after {self._unread!r}"
        self._unread += got
