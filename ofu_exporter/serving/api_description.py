"""Describes the API as FastAPI does, once: as a document for programs, and as a page for people."""

from __future__ import annotations

import json
from functools import cached_property

from fastapi import APIRouter, FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse

from ofu_exporter.serving.page_routes import HEADERS
from ofu_exporter.serving.pages.api_page import api_page


class ApiDescription:
    """The description of an application, made when it is first asked for: that takes a hundred scrapes' time."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    @cached_property
    def both(self) -> tuple[bytes, str]:
        """The OpenAPI document, and the page that is made of it."""
        app = self._app
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        return json.dumps(document).encode(), api_page(document)


def api_routes(described: ApiDescription) -> APIRouter:
    """The routes /openapi.json and /docs."""
    router = APIRouter(include_in_schema=False)

    @router.get("/openapi.json")
    def openapi() -> Response:
        return Response(described.both[0], media_type="application/json")

    @router.get("/docs")
    def docs() -> Response:
        return HTMLResponse(described.both[1], headers=HEADERS)

    return router
