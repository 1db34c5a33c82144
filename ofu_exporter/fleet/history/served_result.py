"""Defines what a report says of serving: tokens, and what they cost. null is what is not known, never 0."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ServedColumns(BaseModel):
    """What jobs served; all null where no engine of theirs is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_tokens: float | None = Field(default=None, description="That were computed, once.")
    cached_tokens: float | None = Field(default=None, description="Of prompts, not computed.")
    recomputed_tokens: float | None = Field(
        default=None, description="Of prompts, in the cache and computed all the same."
    )
    generation_tokens: float | None = None
    serving_gpu_hours: float | None = Field(
        default=None, description="Held in the hours in which engines were read."
    )
    serving_kwh: float | None = Field(
        default=None, description="Of the measured GPUs, in the same hours."
    )
    idle_engine_kwh: float | None = Field(
        default=None, description="Of these, while the engines had no request."
    )
    joules_per_token: float | None = Field(
        default=None,
        description="Without tokens from a cache; of engines that prefill only those of prompts, of engines that "
        "decode only generated ones. So are the next two.",
    )
    tokens_per_gpu_second: float | None = None
    serving_cost: float | None = Field(
        default=None, description="Of these GPU-hours, as far as their price is known."
    )
    cost_per_million_tokens: float | None = None
    cost_per_million_prompt_tokens: float | None = Field(
        default=None, description="Of jobs all of whose engines prefill."
    )
    cost_per_million_generation_tokens: float | None = Field(
        default=None, description="Of jobs all of whose engines decode."
    )
    memory_ratio: float | None = Field(
        default=None,
        description="Share of the cycles in which the memory of their GPUs moved data; null where that was "
        "measured for less than half of the time.",
    )


class ServedModelRow(ServedColumns):
    """What was served of one model. Energy, GPU-hours and cost are of jobs that served it alone."""

    served_model: str = Field(description="As the engines name it.")
    jobs: int
