"""The layers that every request and every answer pass.

They are counted, errors caught, requests with two ends refused, and HEAD answered.
"""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofu_exporter.serving.page import METRICS, Page
from ofu_exporter.settings import OWN_PATHS

STOPPING = JSONResponse({"detail": "the agent stops"}, 503, {"connection": "close"})
FAILED = JSONResponse({"detail": "an error of the agent: see its log"}, 500)
LONGEST_BODY = 1 << 30
"""Bytes. Some proxies keep a length in 32 or 64 bits, and take a longer one for none."""
CLOSE = {"connection": "close"}
TWO_ENDS = JSONResponse({"detail": "both a length and chunks"}, 400, CLOSE)
TOO_LONG = JSONResponse({"detail": "this length is more than anything here takes"}, 413, CLOSE)
_ENDS = frozenset({b"content-length", b"transfer-encoding"})
_PATHS = OWN_PATHS | {METRICS}


def watch(app: ASGIApp, page: Page) -> ASGIApp:
    """The application, every answer of which is counted by path and status, and which answers 500 where it raises.

    Unknown paths share one name, so a scan adds no series. The server would log a trace for each error.
    """

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
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

    return watched


def framed(app: ASGIApp) -> ASGIApp:
    """The application for requests with one end; the connection of others is closed.

    A proxy that finds another end takes what follows for another request, or waits for an answer that never comes. h11
    goes by the chunks where there is a length as well, and would keep the connection (RFC 9112, 6.1). What it refuses
    by itself does not get here.
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        ends = {name: value for name, value in scope["headers"] if name in _ENDS}
        if len(ends) > 1:
            await TWO_ENDS(scope, receive, send)
        elif int(ends.get(b"content-length", b"0")) > LONGEST_BODY:
            await TOO_LONG(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


def answer_head(app: ASGIApp) -> ASGIApp:
    """The application, which answers HEAD with the head of its answer to GET; the server leaves out the body."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        # A copy: the server goes by its own scope to know that no body is to be sent.
        is_head = scope["method"] == "HEAD"
        await app({**scope, "method": "GET"} if is_head else scope, receive, send)

    return answered


def _counted_as(path: str) -> str:
    for folder in ("/v1/jobs/", "/jobs/"):
        if path.startswith(folder):
            return folder + "{job_id}"
    return path if path in _PATHS else "other"
