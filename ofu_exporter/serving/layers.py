"""The layers that every request and every answer pass: a layer is called with the application behind it.

They are counted, errors caught, requests with two ends refused, and HEAD answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofu_exporter.serving.page import METRICS, Page
from ofu_exporter.settings import OWN_PATHS

Layer = Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]]
STOPPING = JSONResponse({"detail": "the agent stops"}, 503, {"connection": "close"})
FAILED = JSONResponse({"detail": "an error of the agent: see its log"}, 500)
LONGEST_BODY = 1 << 30
"""Bytes. Some proxies keep a length in 32 or 64 bits, and take a longer one for none."""
CLOSE = {"connection": "close"}
TWO_ENDS = JSONResponse({"detail": "both a length and chunks"}, 400, CLOSE)
TOO_LONG = JSONResponse({"detail": "this length is more than anything here takes"}, 413, CLOSE)
_ENDS = frozenset({b"content-length", b"transfer-encoding"})
_PATHS = OWN_PATHS | {METRICS}


def behind(layer: Layer) -> Middleware:
    """What puts an application behind a layer."""
    return Middleware(lambda app: partial(layer, app))


async def watch(page: Page, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Count every answer by path and status, and answer 500 where the application raises.

    Unknown paths share one name, so a scan adds no series. The server would log a trace for each error.
    """
    path = scope["path"]
    path = path if path == page.path else _counted_as(path)
    has_begun = False

    async def counted(message: Message) -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            page.count_request(path, message["status"])
        await send(message)

    try:
        await app(scope, receive, counted)
    except asyncio.CancelledError:  # a stop does not wait for it; the server would log a trace
        if not has_begun:
            await STOPPING(scope, receive, counted)
    except Exception as error:  # noqa: BLE001 - noted
        page.faults.note(path, error)
        if not has_begun:
            await FAILED(scope, receive, counted)


async def refuse_two_ends(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let requests with one end pass, and close the connection of others.

    A proxy that finds another end takes what follows for another request, or waits for an answer that never comes. h11
    goes by the chunks where there is a length as well, and would keep the connection (RFC 9112, 6.1). What it refuses
    by itself does not get here.
    """
    ends = {name: value for name, value in scope["headers"] if name in _ENDS}
    if len(ends) > 1:
        await TWO_ENDS(scope, receive, send)
    elif int(ends.get(b"content-length", b"0")) > LONGEST_BODY:
        await TOO_LONG(scope, receive, send)
    else:
        await app(scope, receive, send)


async def answer_head(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer HEAD with the head of the answer to GET; the server leaves out the body."""
    # A copy: the server goes by its own scope to know that no body is to be sent.
    is_head = scope["method"] == "HEAD"
    await app({**scope, "method": "GET"} if is_head else scope, receive, send)


def _counted_as(path: str) -> str:
    for folder in ("/v1/jobs/", "/jobs/"):
        if path.startswith(folder):
            return folder + "{job_id}"
    return path if path in _PATHS else "other"
