"""The route that answers with what has happened on the node."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ofu_exporter.serving.event_log import EventKind
from ofu_exporter.serving.page import Page


class EventJson(BaseModel):
    """One thing that happened."""

    number: int = Field(description="From 1 on since the agent began, without a gap.")
    unix: float = Field(description="Unix time at which it was seen.")
    kind: EventKind
    subject: str = Field(description="Id of the job, name of the GPU or of the source.")
    sentence: str


class EventsJson(BaseModel):
    """The last events of this agent, in memory only."""

    began: float = Field(
        description="Unix time at which the agent, and with it the numbers, began."
    )
    newest: int = Field(description="The number of the newest event; the next `after` to ask with.")
    events: list[EventJson] = Field(description="Oldest first.")


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
