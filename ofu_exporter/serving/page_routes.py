"""The routes of the pages that people look at, and of the last hour behind them as JSON."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.serving.history import GPU_STEP_SECONDS, JOB_STEP_SECONDS
from ofu_exporter.serving.job_routes import found_job
from ofu_exporter.serving.node_json import NodeJson, node_state
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.pages.api_page import api_page
from ofu_exporter.serving.pages.job_page import job_page
from ofu_exporter.serving.pages.links import job_path
from ofu_exporter.serving.pages.look import POLICY
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.serving.routes import HTML, Described, HttpAnswer, Request, Route, json_answer

HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


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


def page_routes(
    page: Page, book: JobBook, described: Callable[[], Mapping[str, Any]]
) -> list[Route]:
    """The routes /, /docs, /jobs/{job_id}, /v1/node and /v1/history; `described` makes the OpenAPI document."""
    node = platform.node()

    def start(_: Request) -> HttpAnswer:
        about = (page.history, node, page.snapshot_age(), page.faults)
        return _html(node_page(page.snapshot(), *about))

    def docs(_: Request) -> HttpAnswer:
        return _html(api_page(described()))

    def job(request: Request) -> HttpAnswer:
        found = found_job(book, request.rest)
        return _html(job_page(found, page.history, f"/v1{job_path(request.rest)}"))

    def history(_: Request) -> HttpAnswer:
        return json_answer(_history(page))

    def whole_node(_: Request) -> HttpAnswer:
        about = (page.history, node, page.snapshot_age(), page.faults)
        return json_answer(node_state(page.snapshot(), *about))

    about_node = Described("This node in one answer, as `ofu-exporter top` shows it", NodeJson)
    return [
        Route("/", start),
        Route("/docs", docs),
        Route("/jobs/{job_id}", job),
        Route("/v1/node", whole_node, about_node),
        Route(
            "/v1/history", history, Described("OFU and reported MFU of the last hour", HistoryJson)
        ),
    ]


def _html(text: str) -> HttpAnswer:
    return HttpAnswer(text.encode(), HTML, headers=HEADERS)


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
