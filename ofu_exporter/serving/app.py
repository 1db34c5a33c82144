"""Makes the HTTP application: FastAPI with one router for each subject, behind the layers that guard it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from functools import partial

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofu_exporter import __version__
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.pages import HEADERS
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.read_routes import add_metrics_routes, job_routes, node_routes
from ofu_exporter.serving.report_routes import answer_refusals, report_routes
from ofu_exporter.support.templates import render

AppLayer = Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]]
STOPPING = JSONResponse({"detail": "the agent stops"}, 503, {"connection": "close"})
FAILED = JSONResponse({"detail": "an error of the agent: see its log"}, 500)
LONGEST_BODY = 1 << 30
"""Bytes. Some proxies keep a length in 32 or 64 bits, and take a longer one for none."""
CLOSE = {"connection": "close"}
TWO_ENDS = JSONResponse({"detail": "both a length and chunks"}, 400, CLOSE)
TOO_LONG = JSONResponse({"detail": "this length is more than anything here takes"}, 413, CLOSE)
_ENDS = frozenset({b"content-length", b"transfer-encoding"})


def behind(layer: AppLayer) -> Middleware:
    """What puts an application behind a layer."""
    return Middleware(lambda app: partial(layer, app))


async def watch(
    page: Page, paths: Container[str], app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Count every answer by path and status, and answer 500 where the application raises.

    All but `paths` share one name, so a scan adds no series. The server would log a trace for each error.
    """
    path = _counted_as(scope["path"], paths)
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


async def take_absolute(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Take a target with a host, as clients send it to a proxy, for its path; its host counts (RFC 9112, 3.2.2)."""
    scheme, _, rest = scope["path"].partition("://")
    if scheme.lower() in ("http", "https"):
        authority, _, path = rest.partition("/")
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        headers.append((b"host", authority.encode("latin-1", "replace")))
        raw = b"/" + scope["raw_path"].partition(b"://")[2].partition(b"/")[2]
        scope = {**scope, "path": f"/{path}", "raw_path": raw, "headers": headers}
    await app(scope, receive, send)


async def answer_head(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer HEAD with the head of the answer to GET; the server leaves out the body."""
    # A copy: the server goes by its own scope to know that no body is to be sent.
    is_head = scope["method"] == "HEAD"
    await app({**scope, "method": "GET"} if is_head else scope, receive, send)


def _counted_as(path: str, paths: Container[str]) -> str:
    for folder in ("/v1/jobs/", "/jobs/"):
        if path.startswith(folder):
            return folder + "{job_id}"
    return path if path in paths else "other"


def create_app(
    page: Page,
    book: JobBook,
    reports: ReportBook,
    guard: Guard,
    read_access: ReadAccess,
    hosts: Hosts | None = None,
) -> FastAPI:
    """The application over a page, to which the daemon publishes snapshots.

    The first layer sees a request first. Requests are counted outside of all else, so that refusals are, too.
    """
    paths: set[str] = set()
    app = FastAPI(
        title="ofu-exporter",
        version=__version__,
        openapi_url=None,  # our own route has it ready
        redirect_slashes=False,  # to an address made from the Host header, which anybody writes
        middleware=[
            behind(take_absolute),
            behind(partial(watch, page, paths)),
            behind(refuse_two_ends),
            behind((hosts or Hosts()).check),
            behind(read_access.check),
            behind(guard.check),
            behind(answer_head),
        ],
    )
    add_metrics_routes(app, page)
    routers = (
        job_routes(page, book),
        report_routes(reports, guard.access),
        node_routes(page),
        api_routes(app),
    )
    for routes in (app.routes, *(router.routes for router in routers)):
        paths.update(route.path for route in routes if isinstance(route, Route))
    for router in routers:
        app.include_router(router)
    answer_refusals(app, reports)
    return app


def api_routes(app: FastAPI) -> APIRouter:
    """The routes /openapi.json, for programs, and /docs, for people: made when one is first asked for, which takes a
    thousand scrapes' time.

    From then on the event loop sends them, so that a flood of such requests takes no thread's time from a scrape.
    """
    router = APIRouter(include_in_schema=False)
    making = asyncio.Lock()
    answers: list[Response] = []

    def make() -> None:
        document = app.openapi()
        report = document["components"]["schemas"][MfuReport.__name__]
        page = render("api.html", paths=document["paths"], report=report)
        answers[:] = JSONResponse(document), HTMLResponse(page, headers=HEADERS)

    async def answer(place: int) -> Response:
        async with making:
            if not answers:
                await to_thread.run_sync(make)
        return answers[place]

    for place, path in enumerate(("/openapi.json", "/docs")):
        router.add_api_route(path, partial(answer, place))
    return router
