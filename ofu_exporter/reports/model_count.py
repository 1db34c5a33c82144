"""FLOPs per token of the model that a report carries, counted by the agent."""

from __future__ import annotations

from functools import lru_cache

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.flops.causes import CountedStep
from ofu_exporter.reports.messages import ModelBody, out_of_range

MODELS = 16
"""So many counted models are remembered."""
UNCOUNTABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a configuration that is none can make of whoever counts it."""


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


def counted_job(model: ModelBody) -> CountedStep:
    """What a step of a model is counted from. Raises ReportError for a model that cannot be counted."""
    return _job(model.model_dump_json())


@lru_cache(MODELS)
def _flops_per_token(model: str) -> float:
    job = _job(model)
    return job.flops() / float(job.lengths.tokens())


@lru_cache(MODELS)
def _job(model: str) -> CountedStep:
    """The job of a model's JSON, which is what can be remembered by."""
    body = ModelBody.model_validate_json(model)
    try:
        job = CountedStep(
            flops.read(body.config, body.ignore_fields),
            flops.fixed(body.batch_size, tokens=body.seq_len),
            flops.Counting(predictions=body.mtp),
            flops.Passes(
                forward_only=body.forward_only,
                frozen=frozenset(body.freeze),
                lora=None if body.lora_rank is None else flops.Lora(body.lora_rank),
            ),
        )
        counted = job.flops()
    except ConfigError as error:
        raise out_of_range("model", str(error)) from error
    except UNCOUNTABLE as error:
        # A configuration is the reporter's own text: whatever it makes of the reader is its fault.
        raise out_of_range(
            "model", f"cannot be counted: {type(error).__name__}: {error}"
        ) from error
    if not counted > 0:
        raise out_of_range(
            "model", "has no FLOPs at a length in tokens alone: give flops_per_token"
        )
    return job
