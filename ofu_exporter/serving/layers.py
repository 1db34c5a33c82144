"""The layers that every request and every answer pass: they count, catch what fails, and answer HEAD."""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.page import METRICS, Page
from ofu_exporter.settings import OWN_PATHS

STOPPING = JSONResponse({"detail": "the agent stops"}, 503, {"connection": "close"})
FAILED = JSONResponse({"detail": "an error of the agent: see its log"}, 500)
_PATHS = OWN_PATHS | {METRICS}


def count_requests(app: ASGIApp, page: Page) -> ASGIApp:
    """The application, every answer of which is counted by path and status.

    Unknown paths share one name, so a scan adds no series.
    """

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        path = path if path == page.path else _counted_as(path)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                page.count_request(path, message["status"])
            await send(message)

        await app(scope, receive, counted)

    return watched


def answer_head(app: ASGIApp) -> ASGIApp:
    """The application, which answers HEAD with the head of its answer to GET; the server leaves out the body."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        # A copy: the server goes by its own scope to know that no body is to be sent.
        is_head = scope["method"] == "HEAD"
        await app({**scope, "method": "GET"} if is_head else scope, receive, send)

    return answered


def catch_faults(app: ASGIApp, faults: Faults) -> ASGIApp:
    """The application, which answers 500 where it raises. The server would log a trace for each."""

    async def caught(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await app(scope, receive, watched)
        except asyncio.CancelledError:  # a stop does not wait for it; the server would log a trace
            if not has_begun:
                await STOPPING(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - noted
            faults.note(_counted_as(scope["path"]), error)
            if not has_begun:
                await FAILED(scope, receive, send)

    return caught


def _counted_as(path: str) -> str:
    if path.startswith("/v1/jobs/"):
        return "/v1/jobs/{job_id}"
    if path.startswith("/jobs/"):
        return "/jobs/{job_id}"
    return path if path in _PATHS else "other"
