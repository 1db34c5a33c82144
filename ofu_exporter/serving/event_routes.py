"""The route that answers with what has happened on the node."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ofu_exporter.serving.event_json import EventJson, EventsJson
from ofu_exporter.serving.page import Page

After = Annotated[int, Query(ge=0, description="Only events with a higher number; 0 = all.")]


def event_routes(page: Page) -> APIRouter:
    """The route /v1/events."""
    router = APIRouter()

    @router.get("/v1/events", summary="What has happened: jobs, verdicts, GPUs, sources")
    def events(after: After = 0) -> EventsJson:
        found, newest = page.events.after(after)
        answer = [EventJson(**event._asdict()) for event in found]
        return EventsJson(began=page.events.began, newest=newest, events=answer)

    return router
