"""FLOPs per token of the model that a report carries, and models that cannot be counted."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ReportError
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.model_count import counted_step, flops_per_token, problem
from ofu_exporter.values.reasons import ReportRejection
from tests.flops.counting import config
from tests.helpers.desk import said

LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}


def model(body: dict[str, Any]) -> ModelBody:
    found = said(mfu=0.4, model=body).model
    assert found is not None
    return found


def test_a_token_costs_what_the_formulas_count() -> None:
    counted = flops.count(flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192))
    found = flops_per_token(model(LLAMA))
    assert found == pytest.approx(float(counted.model_flops_per_step) / 8192)
    assert problem(model(LLAMA)) is None


def test_the_parts_of_a_model_count() -> None:
    def count(**changes: Any) -> float:
        return flops_per_token(model({**LLAMA, **changes}))

    assert count(forward_only=True) == pytest.approx(count() / 3)
    assert count(batch_size=16) == pytest.approx(count())
    assert count(lora_rank=8) < count()
    assert count(seq_len=16384) > count()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"architectures": ["NoSuchModel"]},
        {**config("llama-3-8b"), "hidden_size": 0},
        {**config("llama-3-8b"), "hidden_size": "wide"},
        {**config("llama-3-8b"), "num_hidden_layers": None},
        {**config("llama-3-8b"), "num_attention_heads": -1},
        {**config("llama-3-8b"), "num_key_value_heads": 0},
        config("t5-3b"),  # seq_len does not say how long its two texts are
    ],
)
def test_a_model_that_cannot_be_counted_is_named(wrong: dict[str, Any]) -> None:
    body = model({"config": wrong, "seq_len": 8192})
    for count in (flops_per_token, counted_step):
        with pytest.raises(ReportError) as error:
            count(body)
        assert (error.value.reason, error.value.field) == (ReportRejection.OUT_OF_RANGE, "model")
    assert (problem(body) or "").startswith("model: ")
