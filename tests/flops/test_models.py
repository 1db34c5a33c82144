"""A model's own terms."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.counting import count


def test_predictions_are_left_out_with_a_warning() -> None:
    assert "multi-token-prediction" in count("deepseek-v3").warnings[0]
    assert count("deepseek-v3", counting=flops.Counting(predictions=True)).warnings == ()
    with pytest.raises(ConfigError, match="names no multi-token-prediction layer"):
        count("llama-3-8b", counting=flops.Counting(predictions=True))


@pytest.mark.parametrize(
    ("name", "convention", "chosen", "message"),
    [
        (
            "bert-base-uncased",
            "model",
            {"counting": flops.Counting(causal=True)},
            "attends in both directions; leave --causal out",
        ),
        (
            "deepseek-v3",
            "palm",
            {"counting": flops.Counting(predictions=True)},
            "^predictions: convention palm does not count multi-token prediction$",
        ),
        (
            "llama-3-8b",
            "palm",
            {"passes": flops.Passes(frozen=frozenset({"model"}))},
            "does not count frozen parts or adapters; use convention model",
        ),
    ],
)
def test_choices_that_contradict_the_model_or_the_convention_are_refused(
    name: str, convention: str, chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        count(name, convention, tokens=128, **chosen)
