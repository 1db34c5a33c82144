"""Adds the routes that answer with what is known of jobs and GPUs, as JSON."""

from __future__ import annotations

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.summary import text
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.serving.gpu_json import GpuJson, gpu_state
from ofu_exporter.serving.page import Page


def add_job_routes(app: FastAPI, page: Page, book: JobBook) -> None:
    """Add /v1/jobs, /v1/jobs/{job_id} and /v1/gpus."""

    @app.get("/v1/jobs", summary="The jobs on this node's GPUs, and those that just ended")
    def jobs() -> list[JobTotals]:
        return book.current()

    @app.get(
        "/v1/jobs/{job_id:path}",
        summary="One job, as long as the state file remembers it",
        response_model=JobTotals,
        responses={
            200: {"content": {"text/plain": {}}, "description": "As text where that is preferred"},
            404: {"description": "Nothing is known of this job here"},
        },
    )
    def job(job_id: str, request: Request) -> JobTotals | PlainTextResponse:
        found = book.find(job_id)
        if found is None:
            raise HTTPException(404, f"no job {job_id!r} is known on this node")
        if request.headers.get("accept", "").startswith("text/plain"):
            return PlainTextResponse(text(found) + "\n")
        return found

    @app.get("/v1/gpus", summary="The GPUs of this node, and what was measured last")
    def gpus() -> list[GpuJson]:
        snapshot = page.snapshot()
        if snapshot is None:
            return []
        return page.faults.made("/v1/gpus", lambda view: gpu_state(view, snapshot), snapshot.gpus)
