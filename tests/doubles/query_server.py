"""A server with Prometheus' query API that answers as it is told, and remembers what it was asked.

What real servers answer is documented at https://prometheus.io/docs/prometheus/latest/querying/api/ and quoted beside
each use of this double.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.helpers.quiet_server import QuietHandler, answering


class ServerAnswer(NamedTuple):
    """An answer to give."""

    status: int
    body: Any
    """Bytes, or what is sent as JSON."""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


class Question(NamedTuple):
    """What was asked."""

    path: str
    form: dict[str, str]
    headers: dict[str, str]


@dataclass
class QueryServer:
    """Where it is, and what it was asked."""

    url: str = ""
    asked: list[Question] = field(default_factory=list)


def vector(*rows: tuple[dict[str, str], float, str]) -> ServerAnswer:
    """A successful answer to an instant query."""
    result = [{"metric": labels, "value": [time, value]} for labels, time, value in rows]
    return ServerAnswer(
        200, {"status": "success", "data": {"resultType": "vector", "result": result}}
    )


def error(status: int, kind: str, text: str, **headers: str) -> ServerAnswer:
    """An error as the API gives it."""
    return ServerAnswer(status, {"status": "error", "errorType": kind, "error": text}, headers)


@contextmanager
def query_server(answer: Callable[[Question], ServerAnswer]) -> Iterator[QueryServer]:
    """A server that gives these answers."""
    server = QueryServer()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            form = dict(urllib.parse.parse_qsl(self.sent().decode()))
            question = Question(self.path, form, dict(self.headers.items()))
            server.asked.append(question)
            told = answer(question)
            content = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
            headers = {name.replace("_", "-"): value for name, value in told.headers.items()}
            self.reply(content, told.status, headers)

    with answering(Handler) as http:
        server.url = http.url
        yield server
