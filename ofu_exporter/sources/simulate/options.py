"""Has the settings of a simulated node as a source."""

from __future__ import annotations

from pydantic import BaseModel, Field

from ofu_exporter.support.numbers import WholeNumber

AUTO_RANK: int | None = None


class Options(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """What the simulation has."""

    simulated_gpus: WholeNumber = Field(default=8, ge=1, le=72)
    """Number of simulated GPUs."""
    seed: WholeNumber = 1
    """Seed of the simulated clocks and loads."""
    simulated_cycles: bool = False
    """Whether the simulated driver has cycle counters."""
