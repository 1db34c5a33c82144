"""The routes that say what is known of the node, its GPUs and its jobs: as metrics, JSON, and pages for people."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel, Field

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.serving.history import GPU_STEP_SECONDS, JOB_STEP_SECONDS
from ofu_exporter.serving.negotiation import prefers_text
from ofu_exporter.serving.node_json import GpuJson, NodeJson, gpu_state, node_state
from ofu_exporter.serving.page import METRICS, Page
from ofu_exporter.serving.pages import HEADERS
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot


def add_metrics_routes(app: FastAPI, page: Page) -> None:
    """Add /metrics, /healthz, /readyz, and the names that other programs have for these.

    The event loop answers them, because all is there already.
    """

    async def metrics(request: Request) -> Response:
        headers = request.headers
        shown = page.render(headers.get("accept", ""), headers.get("accept-encoding", ""))
        return Response(shown.body, headers=shown.headers)

    for path in dict.fromkeys((METRICS, page.path)):
        # Starlette's own route: FastAPI's would look for arguments, which costs as much as all the rest of it.
        app.add_route(path, metrics, ["GET"], include_in_schema=False)

    @app.get("/-/healthy", include_in_schema=False)
    @app.get("/healthz", summary="No restart would help", response_class=PlainTextResponse)
    async def healthz() -> Response:
        problem = needs_restart(page.snapshot())
        return PlainTextResponse(f"{problem or 'ok'}\n", 503 if problem else 200)

    @app.get("/-/ready", include_in_schema=False)
    @app.get("/readyz", summary="Samples are fresh, or why not", response_class=PlainTextResponse)
    async def readyz() -> Response:
        problem = unready(page.snapshot())
        return PlainTextResponse(f"{problem or 'ok'}\n", 503 if problem else 200)


def needs_restart(snapshot: Snapshot | None) -> str | None:
    """One sentence on why only another container can go on; None where this one may."""
    reason = Reason.NO_DEVICE_FILES
    if snapshot is None or not unready(snapshot):
        return None
    reasons = {snapshot.source.reason, *(view.reason for view in snapshot.gpus)}
    return f"{reason.value}: {reason.advice}" if reason in reasons else None


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


ENDED = Query(
    False, description="Also the last 500 that the state file remembers of those that ended before."
)
NOT_KNOWN: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {}}, "description": "As text where that is preferred"},
    404: {"description": "Nothing is known of this job here"},
}


class GpuHour(BaseModel):
    """The OFU of one GPU over the last hour."""

    gpu: str
    uuid: str
    gpu_instance: str
    ofu: list[float | None] = Field(description="Oldest first; null where nothing was measured.")


class JobHour(BaseModel):
    """OFU and reported MFU of one job over the last hour."""

    scheduler: str
    job_id: str
    ofu: list[float | None] = Field(description="Oldest first; null where nothing was measured.")
    mfu: list[float | None] = Field(description="The MFU that was compared with it.")


class HistoryJson(BaseModel):
    """The last hour of the GPUs and jobs that are shown now, in memory only."""

    until: float | None = Field(
        description="Unix time up to which the last step is told; it may end up to a step later."
    )
    gpu_step_seconds: float = GPU_STEP_SECONDS
    job_step_seconds: float = JOB_STEP_SECONDS
    gpus: list[GpuHour]
    jobs: list[JobHour]


def _as_array(jobs: Iterable[JobTotals]) -> Iterator[str]:
    opening = "["
    for job in jobs:
        yield opening + job.model_dump_json()
        opening = ","
    yield "]" if opening == "," else "[]"


def job_routes(page: Page, book: JobBook) -> APIRouter:
    """The routes /v1/jobs, /v1/jobs/{job_id} and /jobs/{job_id}."""
    router = APIRouter()

    def totals_of(job_id: str) -> JobTotals:
        totals = book.find(job_id)
        if totals is None:
            raise HTTPException(404, f"no job {job_id!r} is known on this node")
        return totals

    @router.get(
        "/v1/jobs",
        summary="The jobs on this node's GPUs, and those that just ended",
        response_model=list[JobTotals],
    )
    def jobs(ended: bool = ENDED) -> list[JobTotals] | Response:
        if ended:  # of a large node 25 MB, which are never in memory at once
            return StreamingResponse(_as_array(book.with_ended()), media_type="application/json")
        return book.current()

    @router.get(
        "/v1/jobs/{job_id:path}",
        summary="One job, as long as the state file remembers it",
        response_model=JobTotals,
        responses=NOT_KNOWN,
    )
    def job(job_id: str, request: Request) -> JobTotals | Response:
        totals = totals_of(job_id)
        if prefers_text(request.headers.get("accept", "")):
            from ofu_exporter.jobs.summary import summary_text  # noqa: PLC0415 - few ask for it

            return PlainTextResponse(f"{summary_text(totals)}\n")
        return totals

    @router.get("/jobs/{job_id:path}", include_in_schema=False)
    def shown_job(job_id: str) -> HTMLResponse:
        from ofu_exporter.serving.pages.job_page import job_page  # noqa: PLC0415 - few look at it

        return HTMLResponse(job_page(totals_of(job_id), page.history), headers=HEADERS)

    return router


def node_routes(page: Page) -> APIRouter:
    """The routes /v1/gpus, /v1/node, / and /v1/history."""
    router = APIRouter()

    @router.get("/v1/gpus", summary="The GPUs of this node, and what was measured last")
    def gpus() -> list[GpuJson]:
        snapshot = page.snapshot()
        if snapshot is None:
            return []
        return page.faults.made("/v1/gpus", lambda view: gpu_state(view, snapshot), snapshot.gpus)

    @router.get("/v1/node", summary="This node in one answer, as `ofu-exporter top` shows it")
    def node() -> NodeJson:
        about = (page.history, platform.node(), page.snapshot_age(), page.faults)
        state = node_state(page.snapshot(), *about)
        return state.model_copy(update={"pause_file": page.pause_file})

    @router.get("/", include_in_schema=False)
    def shown_node() -> HTMLResponse:
        return HTMLResponse(node_page(node(), page.last_lines.newest_first()), headers=HEADERS)

    @router.get("/v1/history", summary="OFU and reported MFU of the last hour")
    def history() -> HistoryJson:
        snapshot, hour = page.snapshot(), page.history
        if snapshot is None:
            return HistoryJson(until=None, gpus=[], jobs=[])
        gpus = [
            GpuHour(gpu=gpu.index, uuid=gpu.uuid, gpu_instance=gpu.instance, ofu=hour.gpu(gpu.key))
            for gpu in (view.gpu for view in snapshot.gpus)
        ]
        jobs = []
        for job in (view.job for view in snapshot.jobs):
            ofu, mfu = hour.job(job.key)
            jobs.append(JobHour(scheduler=job.scheduler, job_id=job.job_id, ofu=ofu, mfu=mfu))
        return HistoryJson(until=snapshot.unix or None, gpus=gpus, jobs=jobs)

    return router
