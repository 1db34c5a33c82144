"""The route by which a job reports, POST /v1/mfu, and the answers to refused reports."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.book import UNOWNED, ReportBook
from ofu_exporter.reports.messages import PLAIN, MfuAnswer, MfuReport
from ofu_exporter.serving.access import Access, Writer
from ofu_exporter.serving.guard import WRITER, refusal
from ofu_exporter.serving.routes import Described, HttpAnswer, Request, Route, json_answer
from ofu_exporter.support.worker_threads import WorkerThreads
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection

PATH = "/v1/mfu"
MOST_AT_WORK = 2
"""Most models that are counted at once: more of them take no less time in all, and each holds memory."""
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


REFUSALS: Mapping[int, tuple[str, type[BaseModel]]] = {
    status: (
        ", ".join(reason.value for reason in ReportRejection if reason.status == status),
        Problems,
    )
    for status in sorted({reason.status for reason in ReportRejection})
}
ABOUT = Described("A job reports its MFU", MfuAnswer, body=MfuReport, statuses=REFUSALS)


class MalformedError(Exception):
    """A body that is no report."""

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        super().__init__()
        self.problems = problems


def report_routes(reports: ReportBook, access: Access) -> list[Route]:
    """The route POST /v1/mfu of an application behind a `Guard`."""
    threads = WorkerThreads(MOST_AT_WORK)

    async def mfu(request: Request) -> HttpAnswer:
        try:
            report = read_report(await request.body())
            return json_answer(await taken(report, request.scope[WRITER]))
        except MalformedError as error:
            reports.reject(ReportRejection.MALFORMED)
            body = json.dumps({"detail": error.problems}).encode()
            return HttpAnswer(body, status=ReportRejection.MALFORMED.status)
        except ReportError as error:
            return _refused(error)

    async def taken(report: MfuReport, writer: Writer) -> MfuAnswer:
        def permission(job: Job | None) -> None:
            access.may_speak_for(writer, job or Job(UNOWNED, report.job_id))

        # A report is taken on the event loop unless that takes long: a thread costs more than most reports.
        if report.model is not None or report.counts_model:
            receipt = await threads.run(partial(reports.take, report, permission))
        else:
            receipt = reports.take(report, permission)
        if reports.is_unexplained(receipt):
            await threads.run(partial(reports.explain, receipt))
        return reports.answer(receipt)

    return [Route(PATH, mfu, ABOUT, "POST")]


def read_report(body: bytes) -> MfuReport:
    """The report that a body is. Raises MalformedError."""
    if not body:
        raise MalformedError([_as_problem(["body"], "Field required")])
    # Half a surrogate pair comes by an escape, or by bytes that are no ASCII.
    is_plain = body.isascii() and b"\\u" not in body
    try:
        found = json.loads(body.decode() if is_plain else body)
    except json.JSONDecodeError as error:
        raise MalformedError([_as_problem(["body", error.pos], "JSON decode error")]) from error
    except (ValueError, RecursionError) as error:  # no UTF-8, a number too long, nesting too deep
        problem = _as_problem(["body"], "is not JSON that can be read")
        raise MalformedError([problem]) from error
    try:
        return MfuReport.model_validate(found, context=PLAIN if is_plain else None)
    except ValidationError as error:
        items = error.errors(include_url=False, include_context=False, include_input=False)
        raise MalformedError([_problem(item) for item in items[:MOST_PROBLEMS]]) from error


def _refused(error: ReportError) -> HttpAnswer:
    wait = error.retry_after
    headers = () if wait is None else ((b"retry-after", b"%d" % math.ceil(wait)),)
    return HttpAnswer(refusal(error), status=error.reason.status, headers=headers)


def _problem(item: Any) -> dict[str, Any]:
    """A problem without the value that was sent, which may be large, or no JSON at all (NaN)."""
    where = [part if isinstance(part, int) else str(part)[:MOST_CHARS] for part in item["loc"]]
    message = str(item["msg"]).removeprefix("Value error, ")[:MOST_CHARS]
    return _as_problem(["body", *where], message)


def _as_problem(where: list[str | int], message: str) -> dict[str, Any]:
    return {"loc": where, "msg": message, "type": ReportRejection.MALFORMED.value}
