"""Has the place of simulated jobs among the schedulers; they have no settings."""

from __future__ import annotations

from pydantic import BaseModel

AUTO_RANK: int | None = None


class Options(BaseModel, frozen=True, extra="forbid"):
    """This scheduler has no settings."""
