"""Gets one answer over HTTP in bounded time and size, without redirects and proxies."""

from __future__ import annotations

import base64
import http.client
import io
import socket
import time
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl

Check = Callable[[socket.socket], object]
Trust = Callable[[], "ssl.SSLContext"]


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes


class TooLargeError(ValueError):
    """An answer that is larger than it may be."""


class Limits(NamedTuple):
    """How long a whole answer may take, and how large it may be."""

    seconds: float
    most_bytes: int


def get(
    server: str,
    path: str,
    accept: str,
    limits: Limits,
    check: Check = lambda _: None,
    trust: Trust | None = None,
) -> Answer:
    """The answer of a server: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.

    A user and a password in the URL are sent. The time of the name lookup alone is not bounded. `check` is called
    with the connection before anything is sent. `trust` makes the TLS context for https; by default the system's
    authorities are trusted. Raises OSError, HTTPException or ValueError.
    """
    deadline = time.monotonic() + limits.seconds
    url = urllib.parse.urlsplit(server)
    host = url.netloc.rpartition("@")[2] or "localhost"
    path = path if url.scheme == "unix" else url.path.rstrip("/") + path
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", f"Accept: {accept}", "Connection: close"]
    if url.username is not None:
        lines.append(f"Authorization: Basic {_basic(url)}")
    request = "".join(f"{line}\r\n" for line in lines).encode("ascii") + b"\r\n"
    with _connected(url, limits.seconds, trust) as connection:
        check(connection)
        connection.settimeout(_left(deadline))
        connection.sendall(request)
        received = _received(connection, deadline, limits.most_bytes)
    response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]
    response.begin()
    return Answer(response.status, response.read())


def _basic(url: urllib.parse.SplitResult) -> str:
    """User and password of the URL, as RFC 7617 has it."""
    parts = (urllib.parse.unquote(part or "") for part in (url.username, url.password))
    return base64.b64encode(":".join(parts).encode()).decode()


def _connected(url: urllib.parse.SplitResult, seconds: float, trust: Trust | None) -> socket.socket:
    if url.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        connection.connect(url.path)
        return connection
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{url.geturl()}: not an http://, https:// or unix: address")
    port = url.port or (443 if url.scheme == "https" else 80)
    connection = socket.create_connection((url.hostname, port), timeout=seconds)
    if url.scheme == "http":
        return connection
    import ssl  # noqa: PLC0415 - a hook has no time for what it does not need

    context = (trust or ssl.create_default_context)()
    return context.wrap_socket(connection, server_hostname=url.hostname)


def _received(connection: socket.socket, deadline: float, most_bytes: int) -> bytes:
    """Everything that arrives until the other end closes the connection."""
    received = bytearray()
    while True:
        connection.settimeout(_left(deadline))
        piece = connection.recv(1 << 16)
        if not piece:
            return bytes(received)
        received += piece
        if len(received) > most_bytes:
            raise TooLargeError(f"the answer is larger than {most_bytes} bytes")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


class _Received:
    """The part of a socket that HTTPResponse needs, over bytes that were already received."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._received)
