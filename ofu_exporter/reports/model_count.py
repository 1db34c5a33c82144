"""Counts the FLOPs per token of the model that a report carries."""

from __future__ import annotations

import math
from functools import lru_cache

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.flops.causes import CountedStep
from ofu_exporter.flops.recipes import Recipe
from ofu_exporter.flops.step_count import complete
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
    tokens = sum(complete(step.model, step.lengths).tokens(name) for name in step.model.counted)
    return step.flops() / float(tokens)


@lru_cache(MODELS)
def _counted_step(model: str) -> CountedStep:
    """The step of a model in JSON: text, since a cache needs a key."""
    body = ModelBody.model_validate_json(model)
    try:
        read = _model(body)
        lengths = flops.fixed(body.batch_size, **{**read.usual, **body.streams()})
        complete(read, lengths)
        step = CountedStep(
            read,
            lengths,
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
    if not 0 < counted < math.inf:
        raise out_of_range("model", "has no FLOPs at these lengths: give flops_per_token")
    return step


def _model(body: ModelBody) -> flops.Model:
    """The model of a body. Raises ConfigError."""
    if isinstance(body.recipe, Recipe):
        return body.recipe.model()
    if body.config is None:
        raise ConfigError(f"recipe {body.recipe!r} was not looked up")
    return flops.read(body.config, body.ignore_fields)
