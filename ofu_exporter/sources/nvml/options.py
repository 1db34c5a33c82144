"""Has the place of NVML among the sources; it has no settings."""

from __future__ import annotations

from pydantic import BaseModel

AUTO_RANK: int | None = 0


class Options(BaseModel, frozen=True, extra="forbid"):
    """This source has no settings."""
