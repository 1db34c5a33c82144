"""Makes the HTTP application: FastAPI with one router for each subject, behind the layers that guard it."""

from __future__ import annotations

from functools import partial

from fastapi import FastAPI

from ofu_exporter import __version__
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.serving.api_description import api_routes
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.hosts import Hosts
from ofu_exporter.serving.layers import answer_head, behind, refuse_two_ends, watch
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.read_routes import add_metrics_routes, job_routes, node_routes
from ofu_exporter.serving.report_routes import answer_refusals, report_routes


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
