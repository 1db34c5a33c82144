"""Step-3.7 beside what torch executes of its class in transformers, and with a field that has no count."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError

STEP: dict[str, Any] = {
    "architectures": ["Step3p7FlashForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "vocab_size": 320,
    "moe_intermediate_size": 48,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "share_expert_dim": 40,
    "sliding_window": 8,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
}
TORCH_PARAMETERS, TORCH_FLOPS = 372_480, 13_434_880
"""Step3p7TextModel of transformers 5.24.0, without a head: what it stores, and runs of 32 tokens, every pair."""
ROUTING_BIASES = 3 * 8
"""Which published checkpoints store as parameters and transformers as buffers."""


def test_step_is_counted_as_torch_executes_it() -> None:
    passes, counting = flops.Passes(forward_only=True), flops.Counting(causal=False)
    how = flops.How(counting=counting, passes=passes)
    counted = flops.count(flops.read(STEP), flops.fixed(1, tokens=32), how)
    head = 64 * 320
    assert counted.parameters.total - head == TORCH_PARAMETERS + ROUTING_BIASES
    assert counted.model_flops_per_step - 2 * 32 * head == TORCH_FLOPS


def test_more_shared_experts_of_step_are_refused() -> None:
    with pytest.raises(ConfigError, match="n_shared_experts"):
        flops.read({**STEP, "n_shared_experts": 2})
