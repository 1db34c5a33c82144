"""A server that digests are posted to: answers as it is told, and remembers what came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.helpers.quiet_server import QuietHandler, answering


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

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            server.got.append(json.loads(self.sent()))
            answer = server.answers.pop(0) if server.answers else HookAnswer(200)
            self.reply(answer.body, answer.status)

    with answering(Handler) as http:
        server.url = f"{http.url}/hooks/s3cret"
        yield server
