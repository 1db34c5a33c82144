"""Makes the HTTP application: metrics, health, readiness, the start page and the API, all from memory."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.routing import Route

from ofu_exporter import __version__
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.serving.event_routes import add_event_routes
from ofu_exporter.serving.faults import CatchFaults
from ofu_exporter.serving.guard import App, Guard, Message, Receive, Scope, Send
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.serving.job_routes import add_job_routes
from ofu_exporter.serving.page import METRICS, Page
from ofu_exporter.serving.page_routes import add_page_routes
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.report_routes import add_report_routes
from ofu_exporter.settings import OWN_PATHS
from ofu_exporter.values.snapshot import Snapshot

_PATHS = OWN_PATHS | {METRICS}

PUBLISHED_NAMES = {
    "GpuJson": "GpuState",
    "GpuTotals": "GpuReport",
    "JobTotals": "JobReport",
    "WindowJson": "WindowState",
}
"""Classes that have another name in /openapi.json: a client that was generated from it keeps its names."""


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


class _Api(FastAPI):
    """FastAPI whose schema does not follow the names of our classes."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            text = json.dumps(super().openapi())
            for ours, published in PUBLISHED_NAMES.items():
                text = text.replace(f'"{ours}"', f'"{published}"')
                text = text.replace(f'/schemas/{ours}"', f'/schemas/{published}"')
            schema = json.loads(text)
            schemas = schema["components"]["schemas"]
            schema["components"]["schemas"] = dict(sorted(schemas.items()))
            self.openapi_schema = schema
        return self.openapi_schema


def create_app(
    page: Page,
    book: JobBook,
    reports: ReportBook,
    guard: Guard,
    reading: ReadAccess,
    hosts: Hosts | None = None,
) -> FastAPI:
    """The application over a page, to which the daemon publishes snapshots.

    Requests that write pass the guard first; their route finds the writer in `scope["ofu.writer"]`.

    Routes that read are plain functions, which run on a worker thread. Metrics are not: the page is
    rendered already, and a thread would wait for the interpreter longer than the answer takes.
    """
    app = _Api(title="ofu-exporter", version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(answer_head)
    app.add_middleware(guard.around)
    app.add_middleware(reading.around)
    app.add_middleware((hosts or Hosts()).around)
    app.add_middleware(CatchFaults, faults=page.faults, name=_counted_as)
    app.add_middleware(CountRequests, page=page)  # outermost, so that refusals are counted too

    async def metrics(request: Request) -> Response:
        rendered = page.render(
            request.headers.get("accept", ""), request.headers.get("accept-encoding", "")
        )
        headers = {"Content-Type": rendered.content_type, "Vary": "Accept, Accept-Encoding"}
        if rendered.encoding:
            headers["Content-Encoding"] = rendered.encoding
        return Response(rendered.body, headers=headers)

    # A bare route, without parameters that FastAPI would have to check at every scrape.
    app.router.routes += [Route(path, metrics) for path in dict.fromkeys((METRICS, page.path))]

    @app.get("/-/healthy", response_class=PlainTextResponse, include_in_schema=False)
    @app.get("/healthz", response_class=PlainTextResponse, summary="The process turns")
    def healthz() -> str:
        return "ok\n"

    @app.get("/-/ready", response_class=PlainTextResponse, include_in_schema=False)
    @app.get("/readyz", response_class=PlainTextResponse, summary="Samples are fresh, or why not")
    def readyz() -> PlainTextResponse:
        problem = unready(page.snapshot())
        return PlainTextResponse(f"{problem or 'ok'}\n", status_code=503 if problem else 200)

    add_job_routes(app, page, book)
    add_report_routes(app, reports, guard.access)
    add_event_routes(app, page)
    add_page_routes(app, page, book)
    return app


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
