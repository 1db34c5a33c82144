"""Adds the route by which a job reports, POST /v1/mfu, and the answers to refused reports."""

from __future__ import annotations

import math
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.book import UNOWNED, ReportBook
from ofu_exporter.reports.messages import MfuAnswer, MfuReport
from ofu_exporter.serving.access import Access, Writer
from ofu_exporter.serving.guard import WRITER, refusal
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection

PATH = "/v1/mfu"
MOST_PROBLEMS = 10
MOST_CHARS = 500
"""Most problems of a body that an answer names, and most characters of each."""


class Problem(BaseModel):
    """What is at fault, and where."""

    loc: list[str | int]
    msg: str
    type: str


class Problems(BaseModel):
    """Why a request was refused."""

    detail: list[Problem]


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "model": Problems,
        "description": ", ".join(
            reason.value for reason in ReportRejection if reason.status == status
        ),
    }
    for status in sorted({reason.status for reason in ReportRejection})
}


def add_report_routes(app: FastAPI, reports: ReportBook, access: Access) -> None:
    """Add POST /v1/mfu to an application behind a `Guard`."""

    @app.post(PATH, summary="A job reports its MFU", responses=REFUSALS)
    async def mfu(report: MfuReport, request: Request) -> MfuAnswer:
        writer: Writer = request.scope[WRITER]

        def permission(job: Job | None) -> None:
            access.may_speak_for(writer, job or Job(UNOWNED, report.job_id))

        # A report is taken on the event loop unless that takes long: a thread costs more than most reports.
        if report.model is not None or report.counts_model:
            receipt = await run_in_threadpool(reports.take, report, permission)
        else:
            receipt = reports.take(report, permission)
        if reports.is_unexplained(receipt):
            await run_in_threadpool(reports.explain, receipt)
        return reports.answer(receipt)

    @app.exception_handler(ReportError)
    async def refused(request: Request, error: ReportError) -> Response:  # noqa: ARG001
        headers = {}
        if error.retry_after is not None:
            headers["Retry-After"] = f"{math.ceil(error.retry_after)}"
        return Response(refusal(error), error.reason.status, headers, "application/json")

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        if request.url.path == PATH:
            reports.reject(ReportRejection.MALFORMED)
        return _answer([_problem(item) for item in error.errors()[:MOST_PROBLEMS]])

    @app.exception_handler(400)
    async def unreadable(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
        """FastAPI answers bytes that are not UTF-8, too deep nesting and too long numbers in another shape."""
        reports.reject(ReportRejection.MALFORMED)
        return _answer([_as_problem(["body"], "is not JSON that can be read")])


def _answer(problems: list[dict[str, Any]]) -> JSONResponse:
    return JSONResponse({"detail": problems}, ReportRejection.MALFORMED.status)


def _problem(item: Any) -> dict[str, Any]:
    """A problem without the value that was sent, which may be large, or no JSON at all (NaN)."""
    where = [part if isinstance(part, int) else str(part)[:MOST_CHARS] for part in item["loc"]]
    return _as_problem(where, str(item["msg"]).removeprefix("Value error, ")[:MOST_CHARS])


def _as_problem(where: list[str | int], message: str) -> dict[str, Any]:
    return {"loc": where, "msg": message, "type": ReportRejection.MALFORMED.value}
