"""A configuration in a report is text of its sender: bounded in size, numbers and depth."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from ofu_exporter.flops.fields import MOST_LAYERS
from ofu_exporter.reports.fields import DEEPEST, LARGEST, LONGEST, MOST_VALUES, framework_name
from tests.helpers.desk import said
from tests.helpers.every import every

MODEL = {"config": {"hidden_size": 64}, "seq_len": 128}


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


def listed(depth: int) -> list[Any]:
    return [listed(depth - 1)] if depth else []


@every(
    [
        ({"num_hidden_layers": MOST_LAYERS + 1}, f"{MOST_LAYERS + 1} is above {MOST_LAYERS}"),
        ({"text_config": {"num_hidden_layers": 10**9}}, "num_hidden_layers"),
        ({"depths": [2, 2, 10**6]}, "depths"),
        ({"hidden_size": 10**15}, "hidden_size is above 1e+12"),
        ({"hidden_size": -(10**15)}, "hidden_size is above 1e+12"),
        ({"rope_theta": math.inf}, "rope_theta is above 1e+12"),
        ({"rope_theta": math.nan}, "rope_theta is above 1e+12"),
        ({"hybrid_override_pattern": "M" * (LONGEST + 1)}, "longer than"),
        ({"layer_types": ["full"] * (LONGEST + 1)}, "longer than"),
        (nested(DEEPEST + 1), "a is nested more than 16 deep"),
        ({"a": listed(DEEPEST)}, "a is nested more than 16 deep"),
        ({"a": [[]] * 9_999, "b": [[]] * 9_999}, "has more than 10000 values"),
        ({"a": [0] * (MOST_VALUES - 1)}, "has more than 10000 values"),
        ({"hidden_size": 10**15, "after": [1, 2]}, "hidden_size is above 1e+12"),
        ({"hidden_size": 10**15, "after": {"b": 1}}, "hidden_size is above 1e+12"),
    ]
)
def test_a_configuration_that_would_take_the_agents_time_is_refused(
    bomb: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValidationError) as error:
        said(mfu=0.4, model={**MODEL, "config": bomb})
    assert error.value.errors()[0]["loc"] == ("model", "config")
    assert why in error.value.errors()[0]["msg"]


@every(
    [
        {"num_hidden_layers": MOST_LAYERS},
        {"hidden_size": LARGEST, "rope_theta": -LARGEST},
        {"hybrid_override_pattern": "M" * LONGEST},
        {"a": [0] * (MOST_VALUES - 2)},
        nested(DEEPEST),
        {"a": listed(DEEPEST - 1)},
    ]
)
def test_the_largest_configuration_that_is_one_is_taken(large: dict[str, Any]) -> None:
    assert said(mfu=0.4, model={**MODEL, "config": large}).model is not None


@every(
    [
        ("transformers 4.57.1, counted by num_input_tokens_seen", "transformers"),
        ("Megatron-LM core_r0.13", "megatron-lm"),
        ("transformers==4.57", "transformers"),
        ("  vLLM/0.11", "vllm"),
        ("torch.", "torch"),
        ("x" * 64, "x" * 32),
        ('"} evil{', ""),
        ("", ""),
        (None, ""),
    ]
)
def test_the_name_of_a_framework_is_its_first_word(said_: str | None, name: str) -> None:
    assert framework_name(said_) == name
