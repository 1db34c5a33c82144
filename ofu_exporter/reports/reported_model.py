"""Reads the model of a report, counts its FLOPs, and keeps of it its numbers and a short form of its text.

A model may be a large body, and is one of many jobs'.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.flops import recipes as recipe_format
from ofu_exporter.flops.config_file import READY, parsed_config, ready_recipes
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.recipes import Recipe
from ofu_exporter.flops.step_count import complete
from ofu_exporter.reports.messages import MfuReport, ModelBody, out_of_range
from ofu_exporter.support.small_files import read_small
from ofu_exporter.values.reasons import ReportRejection

MOST_RECIPE_BYTES = 256 << 10
MOST_RECIPES = 16
"""Most recipes that are remembered."""
MOST_KEPT_BYTES = 32 << 10
"""Of a compressed text; a longer one is not kept, and explains nothing. A recipe of a thousand factors has 25 kB."""
MOST_QUOTED = 500
"""Most characters of a sentence that quotes a configuration."""
MODELS = 8
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


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A model that was counted. Two are equal if their texts are."""

    digest: bytes
    flops_per_token: float = field(compare=False)
    forward_only: bool = field(compare=False)
    text: bytes = field(compare=False)
    """Compressed JSON; b"" where that is too long."""

    def body(self) -> ModelBody | None:
        """The model as it was reported; None where it was too long to keep."""
        return ModelBody.model_validate_json(zlib.decompress(self.text)) if self.text else None


def keep_model(model: ModelBody) -> KeptModel:
    """Count a model. Raises ReportError for one that cannot be counted."""
    counted = flops_per_token(model)
    text = zlib.compress(model.model_dump_json(exclude_defaults=True).encode())
    compressed = text if len(text) <= MOST_KEPT_BYTES else b""
    return KeptModel(_digest(model), counted, model.forward_only, compressed)


def count_model(
    report: MfuReport, before: KeptModel | None, count: Callable[[ModelBody], KeptModel]
) -> tuple[KeptModel | None, str | None]:
    """The model of a report, or that of earlier ones, and why it cannot be counted where its MFU needs no model.

    A model that the job repeats is not counted again. Raises ReportError.
    """
    if report.model is None or (before is not None and before.digest == _digest(report.model)):
        return before, None
    try:
        return count(report.model), None
    except ReportError as error:
        if report.counts_model or error.reason is ReportRejection.TOO_MANY:
            raise
        return None, f"model: {error.detail[:MOST_QUOTED]}; it explains nothing"


def _digest(model: ModelBody) -> bytes:
    """What tells a model from any other."""
    return blake2b(model.model_dump_json().encode(), digest_size=16).digest()


def with_recipe(report: MfuReport, folder: Path | None) -> tuple[MfuReport, str | None]:
    """The report with the recipe that it names, and why there is none. Raises ReportError where it needs one."""
    model = report.model
    if model is None or not isinstance(model.recipe, str):
        return report, None
    try:
        recipe = named_recipe(folder, model.recipe)
    except ConfigError as error:
        if report.counts_model:
            raise out_of_range("model", str(error)) from error
        return report.model_copy(update={"model": None}), f"model: {error}; it explains nothing"
    with_it = model.model_copy(update={"recipe": recipe})
    return report.model_copy(update={"model": with_it}), None


def named_recipe(folder: Path | None, name: str) -> Recipe:
    """The package's own recipe of a name, otherwise that of the site's folder, as it is now.

    Raises ConfigError, which says what is missing.
    """
    folder = READY if name in ready_recipes() else folder
    if folder is None:
        raise ConfigError(f"recipe {name!r}: this agent has no folder of recipes (recipe_folder)")
    path = folder / f"{name}.json"
    try:
        text = read_small(path, "the recipe", MOST_RECIPE_BYTES)
    except ConfigError as error:  # where the site keeps its files is nothing that a job has to know
        raise ConfigError(str(error).replace(str(path), path.name)) from error
    return _recipe(text, path.name)


@lru_cache(MOST_RECIPES)
def _recipe(text: str, name: str) -> Recipe:
    fields = parsed_config(text, f"the recipe {name}")
    try:
        return recipe_format.read(fields)
    except ConfigError as error:
        raise ConfigError(f"the recipe {name}: {error}") from error


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
                lora=_lora(body),
                reference=body.reference,
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


def _lora(body: ModelBody) -> flops.Lora | None:
    if body.lora_rank is None:
        return None
    named = {"targets": body.lora_targets} if body.lora_targets else {}
    return flops.Lora(body.lora_rank, **named)


def _model(body: ModelBody) -> flops.Model:
    """The model of a body. Raises ConfigError."""
    if isinstance(body.recipe, Recipe):
        return body.recipe.model()
    assert body.config is not None  # with_recipe has looked up a recipe that is named
    return flops.read(body.config, body.ignore_fields)
