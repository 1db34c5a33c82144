"""MiMo-7B by hand, for transformers has no class of it (its own extends Qwen2's), and fields of published files."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from tests.flops.counting import refusal

HIDDEN, LAYERS, KEYS, WIDTH, VOCAB = 4096, 36, 1024, 11008, 151_680
MIMO = {
    "architectures": ["MiMoForCausalLM"],
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": WIDTH,
    "vocab_size": VOCAB,
    "attention_bias": True,
    "use_sliding_window": False,
    "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False,
}


def test_queries_keys_and_values_have_biases_and_the_output_has_none() -> None:
    matrices = LAYERS * (2 * HIDDEN**2 + 2 * HIDDEN * KEYS + 3 * HIDDEN * WIDTH)
    vectors = LAYERS * (HIDDEN + 2 * KEYS + 2 * HIDDEN) + HIDDEN
    length = 4096
    counted = flops.count(flops.read(MIMO), flops.fixed(1, tokens=length))
    assert counted.parameters.total == matrices + vectors + 2 * VOCAB * HIDDEN
    linear = 6 * length * (matrices + VOCAB * HIDDEN)
    # The mean query sees half of the sequence, as everywhere in this package.
    assert counted.model_flops_per_step == linear + 6 * LAYERS * HIDDEN * length**2


def test_a_prediction_is_a_layer_a_projection_and_the_head_again() -> None:
    how = flops.How(counting=flops.Counting(predictions=True))
    lengths = flops.fixed(1, tokens=64)
    model = flops.read(MIMO)
    more = flops.count(model, lengths, how).model_flops_per_step
    more -= flops.count(model, lengths).model_flops_per_step
    layer = 2 * HIDDEN**2 + 2 * HIDDEN * KEYS + 3 * HIDDEN * WIDTH
    linear = layer + 2 * HIDDEN**2 + VOCAB * HIDDEN
    assert more == 6 * 64 * linear + 6 * HIDDEN * 64**2


EXAONE_4 = {
    "architectures": ["Exaone4ForCausalLM"],
    "hidden_size": 5120,
    "intermediate_size": 27392,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "layer_types": [*["sliding_attention"] * 3, "full_attention"] * 16,
    "sliding_window": 4096,
    "sliding_window_pattern": "LLLG",
    "reorder_qk_norm": True,
    "tie_word_embeddings": False,
    "vocab_size": 102_400,
}
COMMAND_R7B = {
    "architectures": ["Cohere2ForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "layer_switch": 4,
    "order_of_interleaved_layers": "local_attn_first",
    "position_embedding_type": "rope_gptj",
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
    "use_embedding_sharing": True,
    "use_gated_activation": True,
    "use_parallel_block": True,
    "use_parallel_embedding": True,
    "use_qk_norm": False,
    "vocab_size": 256_000,
}
PHI_4_MINI = {
    "architectures": ["Phi3ForCausalLM"],
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "full_attn_mod": 1,
    "interpolate_factor": 1,
    "lm_head_bias": False,
    "sliding_window": 262_144,
    "tie_word_embeddings": True,
    "vocab_size": 200_064,
}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (EXAONE_4, 32_003_216_384),
        (COMMAND_R7B, 8_028_033_024),
        (PHI_4_MINI, 3_836_021_760),
    ],
)
def test_published_files_have_fields_that_transformers_does_not_read(
    config: dict[str, Any], parameters: int
) -> None:
    step = flops.fixed(1, tokens=8192)
    assert flops.count(flops.read(config), step).parameters.total == parameters


def test_the_kinds_of_layers_count_before_a_pattern_in_words() -> None:
    step = flops.fixed(1, tokens=8192)
    counted = flops.count(flops.read(EXAONE_4), step).model_flops_per_step
    assert (
        counted
        == flops.count(
            flops.read({**EXAONE_4, "sliding_window_pattern": 4}), step
        ).model_flops_per_step
    )
    without = {**EXAONE_4, "layer_types": None}
    assert "sliding_window_pattern 'LLLG' is not a whole number" in refusal(without)
    assert "use_gated_activation" in refusal({**COMMAND_R7B, "use_gated_activation": False})
