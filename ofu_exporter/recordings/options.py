"""The options of a replay, which the source and the scheduler `replay` share: one file, played at one pace."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class Options(BaseModel, frozen=True, extra="forbid"):
    path: Path = Field(description="The recording to replay.", examples=["FILE"])
    loop: bool = Field(default=False, description="Start again when the recording ends.")
