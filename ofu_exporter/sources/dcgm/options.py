"""Has the settings of DCGM as a source."""

from __future__ import annotations

from pydantic import BaseModel, Field

from ofu_exporter.support.durations import Seconds
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS, SHORTEST_WINDOW_SECONDS

AUTO_RANK: int | None = 1


class Options(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """Which host engine is read, and what it is asked to do."""

    dcgm_address: str = Field(
        default="127.0.0.1:5555",
        pattern=r"^(embedded|unix:/.+|(\[[0-9A-Fa-f:.]+\]|[^:/\s\[\]]+)(:\d{1,5})?)$",
        examples=["ADDRESS"],
    )
    """Host engine of this node: HOST:PORT, [IPV6]:PORT, unix:/PATH, or embedded to start one."""
    dcgm_interval: Seconds = Field(
        default=1.0, ge=SHORTEST_WINDOW_SECONDS, le=LONGEST_WINDOW_SECONDS, examples=["1s"]
    )
    """Time between two samples of the host engine; on Hopper and newer it samples the tensor counter twice as often."""
    dcgm_pre_hopper: bool = False
    """Read GPUs before Hopper too: other profilers then get no counters, and the host engine must run as root."""
