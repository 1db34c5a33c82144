"""Counts the FLOPs per token of the model that a report carries."""

from __future__ import annotations

from functools import lru_cache

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.flops.causes import CountedStep
from ofu_exporter.reports.messages import ModelBody, out_of_range

MODELS = 16
"""Most counted models that are remembered."""
UNCOUNTABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that a senseless configuration can cause in the count."""


def problem(model: ModelBody) -> str | None:
    """Why a model cannot be counted; None for one that can."""
    try:
        flops_per_token(model)
    except ReportError as error:
        return f"model: {error.detail}; it explains nothing"
    return None


def flops_per_token(model: ModelBody) -> float:
    """Model FLOPs of a token. Raises ReportError for a model that cannot be counted."""
    return _flops_per_token(model.model_dump_json())


def counted_step(model: ModelBody) -> CountedStep:
    """A step of a model, to count FLOPs from. Raises ReportError for a model that cannot be counted."""
    return _counted_step(model.model_dump_json())


@lru_cache(MODELS)
def _flops_per_token(model: str) -> float:
    step = _counted_step(model)
    return step.flops() / float(step.lengths.tokens())


@lru_cache(MODELS)
def _counted_step(model: str) -> CountedStep:
    """The step of a model in JSON: text, since a cache needs a key."""
    body = ModelBody.model_validate_json(model)
    try:
        step = CountedStep(
            flops.read(body.config, body.ignore_fields),
            flops.fixed(body.batch_size, tokens=body.seq_len),
            flops.Counting(predictions=body.mtp),
            flops.Passes(
                forward_only=body.forward_only,
                frozen=frozenset(body.freeze),
                lora=None if body.lora_rank is None else flops.Lora(body.lora_rank),
            ),
        )
        counted = step.flops()
    except ConfigError as error:
        raise out_of_range("model", str(error)) from error
    except UNCOUNTABLE as error:
        # The configuration is the sender's text, so any error that it causes is the sender's.
        raise out_of_range(
            "model", f"cannot be counted: {type(error).__name__}: {error}"
        ) from error
    if not counted > 0:
        raise out_of_range(
            "model", "has no FLOPs at a length in tokens alone: give flops_per_token"
        )
    return step
