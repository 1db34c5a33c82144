"""Defines what every answer over a fleet tells of itself: its time, how much is known, what it cost."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ResultRow(BaseModel):
    """A part of what is told: frozen, and without a field that the schema lacks."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AskedTime(ResultRow):
    """The time that a report is about, in whole hours."""

    start: str = Field(description="UTC, ISO 8601.")
    end: str
    hours: int
    covered_ratio: float | None = Field(
        description="Share of the time of which data is there, over all clusters by their GPUs."
    )


class ClusterRow(ResultRow):
    """How much is known of one cluster."""

    cluster: str = Field(description="Its label, empty where there is none.")
    gpus: float | None = Field(description="GPUs that agents knew of, in the hour with the most.")
    covered_ratio: float
    recorded_hours: int = Field(description="Hours that the recording rules kept.")
    raw_hours: int = Field(description="Hours computed from the agents' own series.")


class MissingRow(ResultRow):
    """A stretch of time of which something could not be read."""

    what: str
    start: str
    end: str
    why: str

    @property
    def words(self) -> str:
        return f"{self.what}, {self.start} to {self.end}: {self.why}"


class ReadingCost(ResultRow):
    """What the report cost the server."""

    queries: int
    seconds: float
    samples: int | None = Field(
        description="Samples that the server read; null where it does not say."
    )
