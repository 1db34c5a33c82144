"""A server that digests are posted to: answers as it is told, and remembers what came."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from tests.helpers.quiet_server import QuietServer


class HookAnswer(NamedTuple):
    """An answer to give."""

    status: int
    body: bytes = b"ok"


@dataclass
class HookServer:
    """Where it is, what it answers next, and what it got."""

    url: str = ""
    answers: list[HookAnswer] = field(default_factory=list)
    """200 when there is none left."""
    got: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def hook_server() -> Iterator[HookServer]:
    """A server on a port of its own."""
    server = HookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = server.answers.pop(0) if server.answers else HookAnswer(200)
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with QuietServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}/hooks/s3cret"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
