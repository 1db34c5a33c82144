"""Describes what has happened as JSON, as `/v1/events` answers and `ofu-exporter events` reads it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from ofu_exporter.serving.event_log import EventKind


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
