"""The routes of the metrics, of health and of readiness, answered on the event loop: all is there already."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from ofu_exporter.serving.page import METRICS, Page
from ofu_exporter.values.snapshot import Snapshot


def add_metrics_routes(app: FastAPI, page: Page) -> None:
    """Add /metrics, /healthz, /readyz, and the names that other programs have for these."""

    async def metrics(request: Request) -> Response:
        headers = request.headers
        shown = page.render(headers.get("accept", ""), headers.get("accept-encoding", ""))
        return Response(shown.body, headers=shown.headers)

    for path in dict.fromkeys((METRICS, page.path)):
        # Starlette's own route: FastAPI's would look for arguments, which costs as much as all the rest of it.
        app.add_route(path, metrics, ["GET"], include_in_schema=False)

    @app.get("/-/healthy", include_in_schema=False)
    @app.get("/healthz", summary="The process turns", response_class=PlainTextResponse)
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/-/ready", include_in_schema=False)
    @app.get("/readyz", summary="Samples are fresh, or why not", response_class=PlainTextResponse)
    async def readyz() -> Response:
        problem = unready(page.snapshot())
        return PlainTextResponse(f"{problem or 'ok'}\n", 503 if problem else 200)


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
