"""Defines the steps of where the GPU-hours went, and of where the peak went."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ofu_exporter.fleet.answer import ResultRow

StepName = Literal[
    "installed", "free", "unclaimed", "unknown", "held", "unmeasured", "idle", "active", "effective"
]


class FunnelStep(ResultRow):
    """One step of where the GPU-hours went; each but the first is a part of one above it."""

    name: StepName
    meaning: str
    gpu_hours: float | None
    share: float | None = Field(
        description="Of the installed GPU-hours; without these, of those that are known."
    )
    cost: float | None


class WaterfallStep(ResultRow):
    """One step from the installed GPU-hours to what jobs used of the peak."""

    name: str = Field(
        description="installed; free, unclaimed, unknown and unmeasured as in the funnel; the parts of the peak that "
        "jobs lost, the largest first, of which held_no_kernel and waiting_for_host are lost_idle; delivered, which "
        "is what is left."
    )
    meaning: str
    gpu_hours: float | None
    share: float | None = Field(description="Of the installed GPU-hours.")
    cost: float | None
    advice: str = Field(description="What usually helps; empty where nothing is to be done.")
    page: str = Field(description="The page of the documentation that says more.")
