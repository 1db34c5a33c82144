"""The route by which a job reports, POST /v1/mfu, and the answers to refused reports."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import MfuAnswer, MfuReport
from ofu_exporter.serving.access import Access, Writer
from ofu_exporter.serving.guard import refusal_response, sender_of, writer_of
from ofu_exporter.support import unique_keys
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection

PATH = "/v1/mfu"
MOST_AT_WORK = 1
"""Most models that are counted at once: more of them take no less time in all, and scrapes longer."""
MOST_PROBLEMS = 10
MOST_CHARS = 500
"""Most problems of a body that an answer names, and most characters of each."""


UNREADABLE = {"loc": ("body",), "msg": "is not JSON that can be read", "type": ""}


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
        "description": ", ".join(each.value for each in ReportRejection if each.status == status),
        "model": Problems,
    }
    for status in sorted({reason.status for reason in ReportRejection})
}


class _ReportRequest(Request):
    """A request whose body has no key twice: a report with two job ids is of neither."""

    async def json(self) -> Any:
        return unique_keys.parsed(await self.body())


class _ReportRoute(APIRoute):
    """A route that reads its body so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handle(_ReportRequest(request.scope, request.receive))

        return handled


def report_routes(reports: ReportBook, access: Access) -> APIRouter:
    """The route POST /v1/mfu of an application behind a `Guard`."""
    router = APIRouter(route_class=_ReportRoute)
    most_at_work = CapacityLimiter(MOST_AT_WORK)

    @router.post(PATH, summary="A job reports its MFU", responses=REFUSALS)
    async def mfu(
        report: MfuReport,
        writer: Annotated[Writer, Depends(writer_of)],
        sender: Annotated[str, Depends(sender_of)],
    ) -> MfuAnswer:
        def permission(job: Job | None) -> None:
            access.may_speak_for(writer, job or Job("", report.job_id))

        # A report is taken on the event loop unless that takes long: a thread costs more than most reports.
        take = partial(reports.take, report, permission, sender)
        if report.model is not None or report.counts_model:
            receipt = await to_thread.run_sync(take, limiter=most_at_work)
        else:
            receipt = take()
        if reports.is_unexplained(receipt):
            await to_thread.run_sync(
                partial(reports.explain, receipt.owner.key), limiter=most_at_work
            )
        return reports.answer(receipt)

    return router


def answer_refusals(app: FastAPI, reports: ReportBook) -> None:
    """Let the application answer whatever is refused with problems and their places."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, ReportError)
        return refusal_response(error)

    async def malformed(_: Request, error: Exception) -> Response:
        reports.reject(ReportRejection.MALFORMED)  # no other route takes anything that may be wrong
        items = error.errors() if isinstance(error, RequestValidationError) else [UNREADABLE]
        problems = [_problem(item) for item in items[:MOST_PROBLEMS]]
        return JSONResponse({"detail": problems}, ReportRejection.MALFORMED.status)

    app.add_exception_handler(ReportError, refused)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(400, malformed)  # no UTF-8, a number too long, nesting too deep


def _problem(item: Mapping[str, Any]) -> dict[str, Any]:
    """A problem without the value that was sent, which may be large, or no JSON at all (NaN)."""
    where = [part if isinstance(part, int) else str(part)[:MOST_CHARS] for part in item["loc"]]
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "json_invalid":
        message = f"{message}: {item['ctx']['error']}"
    return {"loc": where, "msg": message[:MOST_CHARS], "type": ReportRejection.MALFORMED.value}
