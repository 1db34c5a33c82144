"""Has the settings of dcgm-exporter's page as a source."""

from __future__ import annotations

from pydantic import BaseModel, Field

from ofu_exporter.support.durations import Seconds
from ofu_exporter.support.numbers import WholeNumber
from ofu_exporter.values.reading import LONGEST_WINDOW_SECONDS, SHORTEST_WINDOW_SECONDS

AUTO_RANK: int | None = 2


class Options(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """Where the page is, and how dcgm-exporter makes it."""

    url: str = Field(
        default="http://localhost:9400/metrics", pattern=r"^https?://[^/]+", examples=["URL"]
    )
    """Page of the dcgm-exporter to read; for https the system's authorities are trusted, or those in SSL_CERT_FILE."""
    collect_interval: Seconds = Field(
        default=30.0, ge=SHORTEST_WINDOW_SECONDS, le=LONGEST_WINDOW_SECONDS, examples=["30s"]
    )
    """Collection interval of that dcgm-exporter (its -c flag)."""
    unchanged_limit: Seconds = Field(default=300.0, gt=0, le=86400.0, examples=["5m"])
    """A GPU's values are rejected if none of them has changed for this long."""
    most_gpus: WholeNumber = Field(default=128, ge=1, le=4096)
    """How many GPUs and MIG instances of the page are measured at most."""
    timeout: Seconds = Field(default=5.0, gt=0, le=60.0, examples=["5s"])
    """How long to wait for the page."""
