"""The types of a report's fields: what each accepts, and how it refuses other values."""

from __future__ import annotations

import json
import re
from functools import partial
from types import NoneType
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat

from ofu_exporter.flops.fields import MOST_LAYERS, REPEATED
from ofu_exporter.flops.recipes import Recipe
from ofu_exporter.hardware import precision_names
from ofu_exporter.hardware.gpu_models import PRECISIONS
from ofu_exporter.values import quantities
from ofu_exporter.values.instant import UNIX_LIMIT

LARGEST = 1e12
LONGEST = 10_000
DEEPEST = 16
MOST_VALUES = 10_000
"""Limits of a configuration: of its numbers, its texts and lists, its nesting and its size."""
_FRAMEWORK = re.compile(r"[a-z0-9](?:[a-z0-9_.+-]{0,30}[a-z0-9+])?")


def framework_name(text: str | None) -> str:
    """The first word of a job's `framework` in lower case, which is its name without a version; "" = none."""
    match = _FRAMEWORK.match((text or "").lower().lstrip())
    return match[0] if match else ""


def _number(value: object) -> object:
    """A JSON number; pydantic alone would take "0.4" and true as well."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("is not a number")
    return value


def _ratio(value: object, plain: float = quantities.RATIO) -> float:
    is_percentage = isinstance(value, str) and value.endswith("%")
    return quantities.parsed_ratio(value if is_percentage else _number(value), plain)


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("has characters that are not printable")
    return value


def _precision(value: str) -> str:
    name = precision_names.precision(value)
    if name not in PRECISIONS:
        raise ValueError(precision_names.unknown(value))
    return name


def _as_shares(value: object) -> object:
    """The shares of a precision that is given alone: all of the FLOPs."""
    if isinstance(value, str):
        return {_precision(value): 1.0}
    if not isinstance(value, dict) or len(value) > len(PRECISIONS):
        raise ValueError("is neither a precision nor shares of several")
    return value


# Bounds stand before the check: support/numbers.py.
Number = Annotated[FiniteFloat, BeforeValidator(_number)]
Positive = Annotated[FiniteFloat, Field(gt=0), BeforeValidator(_number)]
NotNegative = Annotated[FiniteFloat, Field(ge=0), BeforeValidator(_number)]
Unix = Annotated[FiniteFloat, Field(ge=0, lt=UNIX_LIMIT), BeforeValidator(_number)]
StatedShare = Annotated[FiniteFloat, Field(gt=0, le=1), BeforeValidator(_number)]
Precision = Annotated[
    str, AfterValidator(_precision), Field(json_schema_extra={"enum": [*PRECISIONS]})
]
StatedShares = Annotated[
    dict[Precision, StatedShare],
    BeforeValidator(_as_shares, json_schema_input_type=Precision | dict[Precision, StatedShare]),
]
Percent = Annotated[str, Field(pattern=r"^\d+(\.\d+)?%$", description="41% for 0.41.")]
StatedRatio = Annotated[float, BeforeValidator(_ratio, json_schema_input_type=float | Percent)]
StatedOverhead = Annotated[
    float,
    BeforeValidator(
        partial(_ratio, plain=quantities.OVERHEAD), json_schema_input_type=float | Percent
    ),
]
FlopsPerSecond = Annotated[NotNegative, AfterValidator(quantities.flops_per_second)]
TflopsDone = Annotated[NotNegative, AfterValidator(quantities.tflops)]
PeakTflops = Annotated[Positive, AfterValidator(quantities.peak_tflops)]
Text = Annotated[str, AfterValidator(_printable)]
JobId = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_printable)]
Framework = Annotated[str, Field(max_length=64), AfterValidator(_printable)]
RunName = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_printable)]
_RECIPE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_Name = Annotated[str, Field(pattern=f"^{_RECIPE_NAME.pattern}$")]


def _recipe(value: object) -> object:
    """A recipe or its name. The union alone answers with the errors of both, under names of pydantic's own."""
    if isinstance(value, dict):
        return Recipe.model_validate(value)
    if isinstance(value, str) and not _RECIPE_NAME.fullmatch(value):
        raise ValueError("a name has up to 100 letters, digits, dots, dashes and underscores")
    if not isinstance(value, (str, Recipe, NoneType)):
        raise ValueError("is neither a recipe nor the name of one")
    return value


RecipeOrName = Annotated[Recipe | _Name | None, BeforeValidator(_recipe)]


def checked_text(value: object) -> object:
    """Refuse half a surrogate pair anywhere in a body, because an answer that quotes it could not be sent.

    Text fields refuse it themselves and name the field.
    """
    fields = value.items() if isinstance(value, dict) else ()
    inner = [(name, each) for name, each in fields if not isinstance(each, str)]
    names = [name for name, _ in fields]
    try:
        json.dumps([names, inner], ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise ValueError("has half a surrogate pair (such as \\ud800), which is no text") from error
    except RecursionError as error:
        raise ValueError(f"is nested more than {DEEPEST} deep") from error
    return value


def _bounded_config(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse a configuration that would take too much time: its content is up to the sender."""
    waiting: list[tuple[str, object, int]] = [("config", value, 0)]
    values = 0
    while waiting:
        name, item, depth = waiting.pop()
        values += 1
        if values > MOST_VALUES:
            raise ValueError(f"has more than {MOST_VALUES} values")
        if depth > DEEPEST:
            raise ValueError(f"{name} is nested more than {DEEPEST} deep")
        if isinstance(item, (int, float)) and not abs(item) <= LARGEST:
            raise ValueError(f"{name} is above {LARGEST:g}")
        if isinstance(item, int) and item > MOST_LAYERS and REPEATED.search(name):
            raise ValueError(f"{name}: {item} is above {MOST_LAYERS}")
        if isinstance(item, (list, str)) and len(item) > LONGEST:
            raise ValueError(f"{name} is longer than {LONGEST}")
        if isinstance(item, list):
            waiting += [(name, each, depth + 1) for each in item]
        elif isinstance(item, dict):
            waiting += [(key, each, depth + 1) for key, each in item.items()]
    return value


Config = Annotated[dict[str, Any], AfterValidator(_bounded_config)]
