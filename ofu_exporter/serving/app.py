"""Makes the HTTP application: FastAPI with one router for each subject, behind the layers that guard it."""

from __future__ import annotations

import asyncio
from functools import partial

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import HTMLResponse, JSONResponse

from ofu_exporter import __version__
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.serving.layers import answer_head, behind, refuse_two_ends, watch
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.pages import HEADERS
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.read_routes import add_metrics_routes, job_routes, node_routes
from ofu_exporter.serving.report_routes import answer_refusals, report_routes
from ofu_exporter.support.templates import render


def create_app(
    page: Page,
    book: JobBook,
    reports: ReportBook,
    guard: Guard,
    reading: ReadAccess,
    hosts: Hosts | None = None,
) -> FastAPI:
    """The application over a page, to which the daemon publishes snapshots.

    The first layer sees a request first. Requests are counted outside of all else, so that refusals are, too.
    """
    app = FastAPI(
        title="ofu-exporter",
        version=__version__,
        openapi_url=None,  # our own route has it ready
        redirect_slashes=False,  # to an address made from the Host header, which anybody writes
        middleware=[
            behind(partial(watch, page)),
            behind(refuse_two_ends),
            behind((hosts or Hosts()).check),
            behind(reading.check),
            behind(guard.check),
            behind(answer_head),
        ],
    )
    add_metrics_routes(app, page)
    for router in (
        job_routes(page, book),
        report_routes(reports, guard.access),
        node_routes(page),
        api_routes(app),
    ):
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
