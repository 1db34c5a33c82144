"""DeepSeek-V4 beside what torch executes of its class in transformers, and its attention by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError

SMALL: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 32,
    "q_lora_rank": 48,
    "o_groups": 2,
    "o_lora_rank": 24,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 4,
    "vocab_size": 320,
    "moe_intermediate_size": 48,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "sliding_window": 8,
    "compress_ratios": [0, 4, 128],
    "num_hash_layers": 1,
    "hc_mult": 4,
}
LENGTH = 256
TORCH_PARAMETERS, TORCH_PRODUCTS = 404_915, 76_087_296
"""DeepseekV4ForCausalLM of transformers 5.24.0: what it stores, and `aten.mm` of 256 tokens. Experts, the first half of
the output projection and attention, which it masks, run as batched products."""
ROUTING_BIASES = 2 * 8
"""Which published checkpoints store as parameters and transformers as buffers."""


def _counted(config: dict[str, Any], length: int = LENGTH, **how: Any) -> flops.Count:
    passes = flops.Passes(forward_only=True)
    return flops.count(
        flops.read(config), flops.fixed(1, tokens=length), flops.How(passes=passes, **how)
    )


def test_parameters_and_linear_layers_are_those_of_torch() -> None:
    counted = _counted(SMALL)
    assert counted.parameters.total == TORCH_PARAMETERS + ROUTING_BIASES
    batched = ("experts.gate_proj", "experts.up_proj", "experts.down_proj", "attention.o_a_proj")
    linear = (line for line in counted.lines if line.term.part is not flops.Part.CORE)
    assert sum(each.forward for each in linear if each.term.name not in batched) == TORCH_PRODUCTS


def test_a_query_sees_its_window_and_compressed_keys() -> None:
    """Of keys of four tokens the best 4; of those of 128 all; each score and value is a product of 4 heads of 32."""
    cores = {line.term.name: line.forward for line in _counted(SMALL).lines}
    product, half = 4 * 4 * 32, LENGTH**2 // 2

    def band(window: int) -> int:
        return window * (2 * LENGTH - window + 1) // 2

    assert cores["attention.core (window 8)"] == 3 * product * band(8)
    assert cores["attention.core (4 tokens a key)"] == product * band(16) // 4
    assert cores["attention.core (128 tokens a key)"] == product * half // 128
    assert cores["indexer.scores"] == 2 * (2 * 16 + 2) * half // 4


def test_layers_may_be_written_in_words() -> None:
    words = ("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention")
    config = {key: value for key, value in SMALL.items() if key != "compress_ratios"}
    config |= {"layer_types": list(words), "mlp_layer_types": ["hash_moe", "moe", "moe"]}
    config |= {"compress_rates": {words[1]: 4, words[2]: 128}}
    assert _counted(config).model_flops_per_step == _counted(SMALL).model_flops_per_step


def test_a_prediction_attends_as_its_own_number_says() -> None:
    config = {**SMALL, "compress_ratios": [0, 4, 128, 0], "num_nextn_predict_layers": 1}
    trained = _counted(config, counting=flops.Counting(predictions=True))
    names = {line.term.name: line.forward for line in trained.lines}
    alone = {line.term.name: line.forward for line in _counted(config).lines}
    window = "attention.core (window 8)"
    assert names[window] * 3 == alone[window] * 4
    assert names["indexer.scores"] == alone["indexer.scores"]


@pytest.mark.parametrize(
    "changed",
    [
        {"compress_ratios": [0, 4]},
        {"compress_ratios": [0, 4, 16]},
        {"num_key_value_heads": 2},
        {"o_groups": 3},
        {"mlp_bias": True},
        {"compress_rates": {"sliding_attention": "4"}},
        {"compress_rates": {"sliding_attention": True}},
    ],
)
def test_what_has_no_count_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changed))):
        flops.read({**SMALL, **changed})
