"""HTTP servers for tests, which real programs ask and stop asking as they like."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Handler = Callable[..., http.server.BaseHTTPRequestHandler]
LOOPBACK = ("127.0.0.1", 0)
NO_HEADERS: Mapping[str, str] = {}


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Logs nothing."""

    def sent(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(
        self, body: bytes = b"", status: int = 200, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


class QuietServer(http.server.ThreadingHTTPServer):
    """Says nothing about a client that has hung up; any other error is printed."""

    def __init__(
        self,
        handler: Handler,
        address: tuple[str, int] = LOOPBACK,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)
        self.url = f"{'https' if tls else 'http'}://{address[0]}:{self.server_port}"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def answering(
    handler: Handler, address: tuple[str, int] = LOOPBACK, tls: ssl.SSLContext | None = None
) -> Iterator[QuietServer]:
    """A server that answers by this handler."""
    with QuietServer(handler, address, tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class StoppedServer(QuietServer):
    """Answers until it is stopped, which ends its connections and waits for who still answers."""

    daemon_threads = False

    def __init__(self, handler: Handler, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.stopped = threading.Event()
        self._connections: list[socket.socket] = []
        super().__init__(handler, ("127.0.0.1", port), tls)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news here."""

    def stop(self) -> None:
        self.stopped.set()
        self.shutdown()
        self._thread.join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
