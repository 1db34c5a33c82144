"""A server that digests are posted to: answers as it is told, and remembers what came."""

from __future__ import annotations

import itertools
import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class HookAnswer(NamedTuple):
    """An answer to give."""

    status: int
    body: bytes = b"ok"
    headers: tuple[tuple[str, str], ...] = ()
    drips: bool = False
    """The body comes a byte at a time, until nobody listens."""
    drips_head: bool = False
    """The same of the status line and headers, which never end."""


HANGS_UP = HookAnswer(0)
"""The connection ends without an answer."""


@dataclass
class HookServer:
    """Where it is, what it answers next, and what it got."""

    url: str = ""
    answers: list[HookAnswer] = field(default_factory=list)
    """200 when there is none left."""
    got: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


def _give(to: BaseHTTPRequestHandler, answer: HookAnswer, ended: threading.Event) -> None:
    if answer.drips_head:
        _drip(to, itertools.repeat(b"H"), ended)
        return
    to.send_response(answer.status)
    for name, value in answer.headers:
        to.send_header(name, value)
    to.send_header("Content-Length", str(len(answer.body)))
    to.end_headers()
    if answer.drips:
        _drip(to, (bytes([each]) for each in answer.body), ended)
    else:
        to.wfile.write(answer.body)


def _drip(to: BaseHTTPRequestHandler, content: Iterable[bytes], ended: threading.Event) -> None:
    """Send a byte now and then, while somebody takes them and the server is wanted."""
    to.close_connection = True
    with suppress(OSError):
        for each in content:
            to.wfile.write(each)
            if ended.wait(0.05):
                return


@contextmanager
def hook_server(
    tls: ssl.SSLContext | None = None, one_a_connection: bool = False
) -> Iterator[HookServer]:
    """`one_a_connection`: keeps connections (RFC 9112, 9.3), and ends one at its second request, as 9.3.1 warns of."""
    server = HookServer()
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if one_a_connection else "HTTP/1.0"
        requests = 0

        def do_POST(self) -> None:
            self.requests += 1
            if one_a_connection and self.requests > 1:
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.got.append(json.loads(body))
            server.tokens.append(self.headers["Authorization"])
            server.paths.append(self.path)
            answer = server.answers.pop(0) if server.answers else HookAnswer(200)
            if answer is HANGS_UP:
                self.close_connection = True
                return
            _give(self, answer, ended)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        server.url = f"{scheme}://127.0.0.1:{http.server_address[1]}/hooks/s3cret"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            ended.set()
            http.shutdown()
            thread.join()
