"""MiMo-7B by hand: transformers has no class of it, and its own extends Qwen2's."""

from __future__ import annotations

from ofu_exporter import flops

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
