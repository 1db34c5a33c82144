"""Describes the API as FastAPI does, once: as a document for programs, and as a page for people."""

from __future__ import annotations

import asyncio
from functools import partial

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import HTMLResponse, JSONResponse

from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.pages import HEADERS
from ofu_exporter.support.templates import render


def api_routes(app: FastAPI) -> APIRouter:
    """The routes /openapi.json and /docs, made when one is first asked for: that takes a thousand scrapes' time.

    From then on the event loop sends them, so that a flood of such requests takes no thread's time from a scrape.
    """
    router = APIRouter(include_in_schema=False)
    making = asyncio.Lock()
    answers: list[Response] = []

    def make() -> None:
        document = app.openapi()
        report = document["components"]["schemas"][MfuReport.__name__]
        page = render("api.html", paths=document["paths"], report=report)
        answers[:] = JSONResponse(document), HTMLResponse(page, headers=HEADERS)

    async def answer(place: int) -> Response:
        async with making:
            if not answers:
                await to_thread.run_sync(make)
        return answers[place]

    for place, path in enumerate(("/openapi.json", "/docs")):
        router.add_api_route(path, partial(answer, place))
    return router
