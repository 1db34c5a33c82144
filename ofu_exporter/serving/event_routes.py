"""The route that answers with what has happened on the node."""

from __future__ import annotations

from pydantic import BaseModel, Field

from ofu_exporter.serving.event_log import EventKind
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.routes import (
    Described,
    HttpAnswer,
    NumberAsked,
    Request,
    Route,
    json_answer,
)


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


AFTER = NumberAsked("after", "Only events with a higher number; 0 = all.")


def event_routes(page: Page) -> list[Route]:
    """The route /v1/events."""

    def events(request: Request) -> HttpAnswer:
        found, newest = page.events.after(request.number(AFTER))
        answer = [EventJson(**event._asdict()) for event in found]
        return json_answer(EventsJson(began=page.events.began, newest=newest, events=answer))

    what = "What has happened: jobs, verdicts, GPUs, sources"
    return [Route("/v1/events", events, Described(what, EventsJson, number=AFTER))]
