"""The routes that answer with what is known of jobs and GPUs, as JSON."""

from __future__ import annotations

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.summary import text
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.serving.gpu_json import GpuJson, gpu_state
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.routes import (
    TEXT,
    Described,
    HttpAnswer,
    Request,
    Route,
    RouteError,
    json_answer,
    json_list,
)


def found_job(book: JobBook, job_id: str) -> JobTotals:
    """What is known of a job. Raises RouteError."""
    found = book.find(job_id)
    if found is None:
        raise RouteError(404, f"no job {job_id!r} is known on this node")
    return found


def job_routes(page: Page, book: JobBook) -> list[Route]:
    """The routes /v1/jobs, /v1/jobs/{job_id} and /v1/gpus."""

    def jobs(_: Request) -> HttpAnswer:
        return json_list(book.current())

    def job(request: Request) -> HttpAnswer:
        found = found_job(book, request.rest)
        if request.header(b"accept").startswith("text/plain"):
            return HttpAnswer(f"{text(found)}\n".encode(), TEXT)
        return json_answer(found)

    def gpus(_: Request) -> HttpAnswer:
        snapshot = page.snapshot()
        if snapshot is None:
            return json_list([])
        shown = page.faults.made("/v1/gpus", lambda view: gpu_state(view, snapshot), snapshot.gpus)
        return json_list(shown)

    about_jobs = Described(
        "The jobs on this node's GPUs, and those that just ended", JobTotals, is_list=True
    )
    about_job = Described(
        "One job, as long as the state file remembers it",
        JobTotals,
        also_text="As text where that is preferred",
        statuses={404: ("Nothing is known of this job here", None)},
    )
    about_gpus = Described(
        "The GPUs of this node, and what was measured last", GpuJson, is_list=True
    )
    return [
        Route("/v1/jobs", jobs, about_jobs),
        Route("/v1/jobs/{job_id}", job, about_job),
        Route("/v1/gpus", gpus, about_gpus),
    ]
