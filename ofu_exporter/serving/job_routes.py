"""The routes that answer with what is known of jobs and GPUs, as JSON."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.summary import text
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.serving.gpu_json import GpuJson, gpu_state
from ofu_exporter.serving.negotiation import prefers_text
from ofu_exporter.serving.page import Page

NOT_KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {}}, "description": "As text where that is preferred"},
    404: {"description": "Nothing is known of this job here"},
}


def found_job(book: JobBook, job_id: str) -> JobTotals:
    """What is known of a job. Raises HTTPException."""
    totals = book.find(job_id)
    if totals is None:
        raise HTTPException(404, f"no job {job_id!r} is known on this node")
    return totals


def job_routes(page: Page, book: JobBook) -> APIRouter:
    """The routes /v1/jobs, /v1/jobs/{job_id} and /v1/gpus."""
    router = APIRouter()

    @router.get("/v1/jobs", summary="The jobs on this node's GPUs, and those that just ended")
    def jobs() -> list[JobTotals]:
        return [*book.current()]

    @router.get(
        "/v1/jobs/{job_id:path}",
        summary="One job, as long as the state file remembers it",
        response_model=JobTotals,
        responses=NOT_KNOWN,
    )
    def job(job_id: str, request: Request) -> JobTotals | Response:
        totals = found_job(book, job_id)
        if prefers_text(request.headers.get("accept", "")):
            return PlainTextResponse(f"{text(totals)}\n")
        return totals

    @router.get("/v1/gpus", summary="The GPUs of this node, and what was measured last")
    def gpus() -> list[GpuJson]:
        snapshot = page.snapshot()
        if snapshot is None:
            return []
        return page.faults.made("/v1/gpus", lambda view: gpu_state(view, snapshot), snapshot.gpus)

    return router
