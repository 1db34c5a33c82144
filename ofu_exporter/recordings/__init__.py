"""Recordings of what a source read: how they are written, read and replayed, and the one that the demo plays."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, Field

H100_TRAINING = Path(__file__).with_name("h100-training.jsonl.gz")
"""Five training jobs on one H100, one after another in ten minutes (docs/hardware.md)."""


class Options(BaseModel, frozen=True, extra="forbid"):
    """The options of a replay, which the source and the scheduler `replay` share: one file, played at one pace."""

    path: Path = Field(description="The recording to replay.", examples=["FILE"])
    loop: bool = Field(default=False, description="Start again when the recording ends.")


@lru_cache(maxsize=8)
def began(path: Path, clock: Callable[[], float]) -> float:  # noqa: ARG001 - one for each recording
    """When this process began to replay a recording, by the given clock: when somebody first asked.

    From then on it runs like a node: through pauses, and before its source is open. So source, jobs and reports are
    always at the same place of it.
    """
    return clock()
