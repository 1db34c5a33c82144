"""What a job's serving engines served, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, Field

from ofu_exporter.values.served import Served, add_to

Sum = Annotated[float, Field(ge=0.0, le=1e36)]
"""A sum that some agent may have counted: what is more was put into its file by somebody else."""


class ServedTotals(BaseModel, frozen=True, extra="ignore", allow_inf_nan=False):
    """What the engines of one job served of one model."""

    # `Served` says what each number means. A number that no engine counts is absent.

    served_model: str = ""
    """As the engine names it."""
    seconds: Sum = 0.0
    tokens: dict[str, Sum] = Field(default_factory=dict)
    requests: Sum | None = None
    forward_seconds: dict[str, Sum] = Field(default_factory=dict)
    moved_bytes: dict[str, Sum] = Field(default_factory=dict)
    """Of one GPU, by `read` or `write`, by the engine's own count."""
    flops: Sum | None = None
    """Of one GPU, by the engine's own count."""


def served_totals(served: Served) -> tuple[ServedTotals, ...]:
    """One entry for each model, by name."""
    return tuple(
        ServedTotals.model_construct(
            served_model=model,
            seconds=seconds,
            tokens=_of(model, served.tokens),
            requests=served.requests.get(model),
            forward_seconds=_of(model, served.forward_seconds),
            moved_bytes=_of(model, served.moved_bytes),
            flops=served.flops.get(model),
        )
        for model, seconds in sorted(served.seconds.items())
    )


def as_served(totals: Iterable[ServedTotals]) -> Served:
    """The sums of all of them; a number that none has is absent."""
    sums = Served()
    for one in totals:
        model = one.served_model
        sums.seconds[model] += one.seconds
        for of_kind, more in (
            (sums.tokens, one.tokens),
            (sums.forward_seconds, one.forward_seconds),
            (sums.moved_bytes, one.moved_bytes),
        ):
            add_to(of_kind, {(model, kind): value for kind, value in more.items()})
        for whole, value in ((sums.requests, one.requests), (sums.flops, one.flops)):
            if value is not None:
                whole[model] += value
    return sums


def _of(model: str, values: dict[tuple[str, str], float]) -> dict[str, float]:
    return {kind: value for (of, kind), value in values.items() if of == model}


def merged_served(totals: Iterable[ServedTotals]) -> tuple[ServedTotals, ...]:
    """What several engines or nodes served as one, by model."""
    return served_totals(as_served(totals))
