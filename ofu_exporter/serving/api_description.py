"""Describes the API as FastAPI does, once: as a document for programs, and as a page for people."""

from __future__ import annotations

import asyncio

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse

from ofu_exporter.serving.page_routes import HEADERS
from ofu_exporter.serving.pages.api_page import api_page


class ApiDescription:
    """The answers that describe an application, made when first asked for: that takes a hundred scrapes' time.

    From then on the event loop sends them, so that a flood of such requests takes no thread's time from a scrape.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._answers: tuple[Response, Response] | None = None

    async def answers(self) -> tuple[Response, Response]:
        """The OpenAPI document, and the page that is made of it."""
        async with self._lock:
            if self._answers is None:
                self._answers = await to_thread.run_sync(self._made)
            return self._answers

    def _made(self) -> tuple[Response, Response]:
        app = self._app
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        return JSONResponse(document), HTMLResponse(api_page(document), headers=HEADERS)


def api_routes(described: ApiDescription) -> APIRouter:
    """The routes /openapi.json and /docs."""
    router = APIRouter(include_in_schema=False)

    @router.get("/openapi.json")
    async def openapi() -> Response:
        return (await described.answers())[0]

    @router.get("/docs")
    async def docs() -> Response:
        return (await described.answers())[1]

    return router
