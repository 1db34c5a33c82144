"""Makes the HTTP application: metrics, health, readiness, the start page and the API, all from memory."""

from __future__ import annotations

import json

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.event_routes import event_routes
from ofu_exporter.serving.faults import CatchFaults
from ofu_exporter.serving.guard import App, Guard, Message, Receive, Scope, Send
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.serving.job_routes import job_routes
from ofu_exporter.serving.openapi import openapi
from ofu_exporter.serving.page import METRICS, Page
from ofu_exporter.serving.page_routes import page_routes
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.report_routes import report_routes
from ofu_exporter.serving.routes import TEXT, Described, HttpAnswer, Request, Route, Routes
from ofu_exporter.settings import OWN_PATHS
from ofu_exporter.values.snapshot import Snapshot

_PATHS = OWN_PATHS | {METRICS}


class CountRequests:
    """Counts every answer by path and status; unknown paths share one name, so a scan adds no series."""

    def __init__(self, app: App, page: Page) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        path = path if path == self._page.path else _counted_as(path)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._page.count_request(path, message["status"])
            await send(message)

        await self._app(scope, receive, counted)


class ShortWay:
    """Answers a scrape at once where everybody may read. All others, and those that fail here, take the full way."""

    def __init__(self, app: App, page: Page, hosts: Hosts, reading: ReadAccess) -> None:
        self._app = app
        self._page = page
        self._paths = {METRICS, page.path}
        self._hosts = hosts
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(scope, receive) if scope.get("path") in self._paths else None
        if answer is None:
            await self._app(scope, receive, send)
        else:
            self._page.count_request(scope["path"], answer.status)
            await answer.send(send)

    def _answer(self, scope: Scope, receive: Receive) -> HttpAnswer | None:
        if scope["type"] != "http" or scope["method"] != "GET":
            return None
        if not (self._reading.is_open and self._hosts.admits(scope)):
            return None
        try:
            return metrics_answer(self._page, Request(scope, receive))
        except Exception:  # noqa: BLE001 - on the long way it is raised again, and noted
            return None


def metrics_answer(page: Page, request: Request) -> HttpAnswer:
    """The page as the reader wants to have it."""
    rendered = page.render(request.header(b"accept"), request.header(b"accept-encoding"))
    headers = [(b"vary", b"Accept, Accept-Encoding")]
    if rendered.encoding:
        headers.append((b"content-encoding", rendered.encoding.encode()))
    return HttpAnswer(rendered.body, rendered.content_type, headers=tuple(headers))


def answer_head(app: App) -> App:
    """The application, which answers HEAD with the head of its answer to GET; the server leaves out the body."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        # A copy: the server goes by its own scope to know that no body is to be sent.
        await app({**scope, "method": "GET"} if is_head else scope, receive, send)

    return answered


def _counted_as(path: str) -> str:
    if path.startswith("/v1/jobs/"):
        return "/v1/jobs/{job_id}"
    if path.startswith("/jobs/"):
        return "/jobs/{job_id}"
    return path if path in _PATHS else "other"


def create_app(
    page: Page,
    book: JobBook,
    reports: ReportBook,
    guard: Guard,
    reading: ReadAccess,
    hosts: Hosts | None = None,
) -> App:
    """The application over a page, to which the daemon publishes snapshots.

    Requests that write pass the guard first; their route finds the writer in `scope["ofu.writer"]`.
    """
    hosts = hosts or Hosts()
    routes = Routes(all_routes(page, book, reports, guard.access))
    app = hosts.around(reading.around(guard.around(answer_head(routes))))
    # Counted outside of all else, so that refusals are, too.
    counted = CountRequests(CatchFaults(app, page.faults, _counted_as), page)
    return ShortWay(counted, page, hosts, reading)


def all_routes(page: Page, book: JobBook, reports: ReportBook, access: Access) -> list[Route]:
    """Every route, in the order in which they are described."""
    routes: list[Route] = [
        *_own_routes(page),
        *job_routes(page, book),
        *report_routes(reports, access),
        *event_routes(page),
        *page_routes(page, book, lambda: openapi(routes)),
        Route("/openapi.json", lambda _: HttpAnswer(json.dumps(openapi(routes)).encode())),
    ]
    return routes


def _own_routes(page: Page) -> list[Route]:
    """Metrics, health and readiness, which are answered on the event loop: they are there already."""

    async def metrics(request: Request) -> HttpAnswer:
        return metrics_answer(page, request)

    async def healthz(_: Request) -> HttpAnswer:
        return HttpAnswer(b"ok\n", TEXT)

    async def readyz(_: Request) -> HttpAnswer:
        problem = unready(page.snapshot())
        return HttpAnswer(f"{problem or 'ok'}\n".encode(), TEXT, 503 if problem else 200)

    return [
        *(Route(path, metrics) for path in dict.fromkeys((METRICS, page.path))),
        Route("/-/healthy", healthz),
        Route("/healthz", healthz, Described("The process turns")),
        Route("/-/ready", readyz),
        Route("/readyz", readyz, Described("Samples are fresh, or why not")),
    ]


def unready(snapshot: Snapshot | None) -> str | None:
    """One sentence on why no GPU has a fresh sample; None when one has."""
    if snapshot is None:
        return "starting: no snapshot yet"
    if any(view.reason is None or view.window is not None for view in snapshot.gpus):
        return None
    source = snapshot.source
    if source.reason is not None:
        detail = f" ({source.detail})" if source.detail else ""
        return f"source {source.name}: {source.reason.value}{detail}. {source.reason.advice}"
    reasons = sorted({view.reason for view in snapshot.gpus if view.reason})
    if not reasons:
        return f"source {source.name}: no GPU seen yet"
    return "; ".join(f"{reason.value}: {reason.advice}" for reason in reasons)
