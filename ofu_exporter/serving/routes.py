"""Finds what answers a request, by its path and method, and sends the answer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, cast
from urllib.parse import parse_qs

from pydantic import BaseModel

from ofu_exporter.serving.guard import Receive, Scope, Send
from ofu_exporter.support.worker_threads import WorkerThreads

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"


_MOST_DIGITS = 18
"""More digits are no number that was ever given."""


class NumberAsked(NamedTuple):
    """A whole number that a request may ask with, as `?name=N`; 0 where it does not."""

    name: str
    what: str


class Request(NamedTuple):
    """One request."""

    scope: Scope
    receive: Receive
    rest: str = ""
    """What of the path stands in the place of the route's `{...}`."""

    def header(self, name: bytes) -> str:
        """The first header of this name, "" where there is none; names are in lower case."""
        found = (value for key, value in self.scope["headers"] if key == name)
        return next(found, b"").decode("latin-1")

    def number(self, asked: NumberAsked) -> int:
        """The number that it asks with. Raises RouteError for what is none."""
        query = parse_qs(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        text = query.get(asked.name, ["0"])[-1]
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise RouteError(422, f"{asked.name} is not a whole number of 0 or more")
        return int(text)

    async def body(self) -> bytes:
        """The whole body."""
        pieces = []
        more = True
        while more:
            message = await self.receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        return b"".join(pieces)


class HttpAnswer(NamedTuple):
    """What is sent back."""

    body: bytes
    content_type: str = JSON
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: Send) -> None:
        headers = [
            (b"content-type", self.content_type.encode()),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class RouteError(Exception):
    """A request that a route refuses, with its status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Described(NamedTuple):
    """What the API's description says of a route."""

    summary: str
    answer: type[BaseModel] | None = None
    """What is answered, as JSON; None = a line of text."""
    is_list: bool = False
    body: type[BaseModel] | None = None
    also_text: str = ""
    """When the answer is text in the place of JSON; "" = never."""
    number: NumberAsked | None = None
    """What a request may ask with."""
    statuses: Mapping[int, tuple[str, type[BaseModel] | None]] = {}
    """What other statuses mean, and what comes with them."""


OnThread = Callable[[Request], HttpAnswer]
OnLoop = Callable[[Request], Awaitable[HttpAnswer]]


class Route(NamedTuple):
    """What answers the requests of a path. A plain function runs on a worker thread, a coroutine on the event loop."""

    path: str
    """Its last part may be `{name}`, which stands for all the rest of the path."""
    answer: OnThread | OnLoop
    described: Described | None = None
    method: str = "GET"


def json_answer(found: BaseModel) -> HttpAnswer:
    """The answer that is one model."""
    return HttpAnswer(found.model_dump_json().encode())


def json_list(found: Iterable[BaseModel]) -> HttpAnswer:
    """The answer that is a list of models."""
    return HttpAnswer(b"[%s]" % b",".join(each.model_dump_json().encode() for each in found))


class Routes:
    """All routes, as an application."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = tuple(routes)
        whole = {route.path.partition("{"): route for route in self.all}
        self._exact = {start: route for (start, name, _), route in whole.items() if not name}
        self._below = {start: route for (start, name, _), route in whole.items() if name}
        self._on_loop = {
            route.answer for route in self.all if inspect.iscoroutinefunction(route.answer)
        }
        self._threads = WorkerThreads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except RouteError as error:
            body = json.dumps({"detail": str(error)}).encode()
            answer = HttpAnswer(body, status=error.status)
        await answer.send(send)

    async def _answer(self, scope: Scope, receive: Receive) -> HttpAnswer:
        path = scope["path"]
        if path.endswith("/") and path[:-1] in self._exact and path not in self._below:
            return HttpAnswer(b"", status=307, headers=((b"location", path[:-1].encode()),))
        route, rest = self._found(path)
        if scope["method"] != route.method:
            body = json.dumps({"detail": "Method Not Allowed"}).encode()
            return HttpAnswer(body, status=405, headers=((b"allow", route.method.encode()),))
        request = Request(scope, receive, rest)
        if route.answer in self._on_loop:
            return await cast(OnLoop, route.answer)(request)
        return await self._threads.run(partial(cast(OnThread, route.answer), request))

    def _found(self, path: str) -> tuple[Route, str]:
        """The route of a path, and the rest of the path. Raises RouteError."""
        route = self._exact.get(path)
        if route is not None:
            return route, ""
        for start, below in self._below.items():
            if path.startswith(start):
                return below, path.removeprefix(start)
        raise RouteError(404, "Not Found")
