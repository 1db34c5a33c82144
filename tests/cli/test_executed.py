"""`flops --executed`."""

from __future__ import annotations

import re

import pytest

from tests.flops.counting import LLAMA
from tests.helpers.in_process import as_json, shown


@pytest.mark.slow
def test_what_torch_executes_of_a_model() -> None:
    pytest.importorskip("transformers", reason="pip install --group test-torch")
    step = ("flops", LLAMA, "--seq-len", "256", "--batch-size", "8")
    executed, counted = as_json(*step, "--executed"), as_json(*step, "--full-attention")
    assert executed["executed_flops_per_step"] == counted["model_flops_per_step"]
    assert executed["executed_flops_per_token"] == counted["model_flops_per_token"]
    assert executed["parameters"]["total"] == counted["parameters"]["total"]
    assert {each["name"] for each in executed["operators"]} == {"bmm", "mm"}
    assert "every pair" in executed["warnings"][0]
    text = shown(*step, "--executed", "--forward-only")
    assert "LlamaForCausalLM, as torch executes it" in text
    assert re.search(r"\nmm +[\d,]+ +0\n", text)
