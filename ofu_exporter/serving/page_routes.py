"""The routes of the pages that people look at, and of the last hour behind them as JSON."""

from __future__ import annotations

import platform

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.serving.history import GPU_STEP_SECONDS, JOB_STEP_SECONDS
from ofu_exporter.serving.job_routes import found_job
from ofu_exporter.serving.node_json import NodeJson, node_state
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.pages.job_page import job_page
from ofu_exporter.serving.pages.look import HEADERS
from ofu_exporter.serving.pages.node_page import node_page


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

    until: float | None = Field(description="Unix time at which the last step ends.")
    gpu_step_seconds: float = GPU_STEP_SECONDS
    job_step_seconds: float = JOB_STEP_SECONDS
    gpus: list[GpuHour]
    jobs: list[JobHour]


def page_routes(page: Page, book: JobBook) -> APIRouter:
    """The routes /, /jobs/{job_id}, /v1/node and /v1/history."""
    router = APIRouter()

    @router.get("/v1/node", summary="This node in one answer, as `ofu-exporter top` shows it")
    def node() -> NodeJson:
        about = (page.history, platform.node(), page.snapshot_age(), page.faults)
        return node_state(page.snapshot(), *about)

    @router.get("/", include_in_schema=False)
    def start() -> HTMLResponse:
        return HTMLResponse(node_page(node(), page.last_lines.newest_first()), headers=HEADERS)

    @router.get("/jobs/{job_id:path}", include_in_schema=False)
    def job(job_id: str) -> HTMLResponse:
        return HTMLResponse(job_page(found_job(book, job_id), page.history), headers=HEADERS)

    @router.get("/v1/history", summary="OFU and reported MFU of the last hour")
    def history() -> HistoryJson:
        return _history(page)

    return router


def _history(page: Page) -> HistoryJson:
    snapshot = page.snapshot()
    if snapshot is None:
        return HistoryJson(until=None, gpus=[], jobs=[])
    gpus = [
        GpuHour(
            gpu=view.gpu.index,
            uuid=view.gpu.uuid,
            gpu_instance=view.gpu.instance,
            ofu=page.history.gpu(view.gpu.key),
        )
        for view in snapshot.gpus
    ]
    jobs = []
    for view in snapshot.jobs:
        ofu, mfu = page.history.job(view.job.key)
        jobs.append(JobHour(scheduler=view.job.scheduler, job_id=view.job.job_id, ofu=ofu, mfu=mfu))
    return HistoryJson(until=snapshot.unix or None, gpus=gpus, jobs=jobs)
