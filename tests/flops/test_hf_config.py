"""Fields that configurations have in common."""

from __future__ import annotations

import pytest

from tests.flops.counting import config, refusal


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("llama-3-8b", {"num_key_value_heads": 7}, "num_attention_heads=32, num_key_value_heads=7"),
        ("llama-3-8b", {"num_attention_heads": 24}, "hidden_size=4096, num_attention_heads=24"),
        ("gpt2", {"hidden_size": 1024}, "n_embd=768, hidden_size=1024 contradict each other"),
        ("gpt2", {"n_head": 7}, "n_head 7 must divide the width 768"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "num_local_experts=8, num_experts_per_tok=9"),
        (
            "gpt-oss-20b",
            {"layer_types": ["full_attention"]},
            "layer_types has 1 entries for 24 layers",
        ),
        ("gpt-oss-20b", {"sliding_window": None}, "layer_types="),
        ("qwen2.5-7b", {"use_sliding_window": True, "sliding_window": None}, "no window to slide"),
        ("deepseek-v3", {"first_k_dense_replace": 62}, "first_k_dense_replace=62"),
        ("deepseek-v3", {"num_key_value_heads": 8}, "latent attention has no groups"),
        ("deepseek-v3", {"qk_head_dim": 128}, "qk_head_dim=128"),
        ("nemotron-h-8b", {"num_hidden_layers": 51}, "num_hidden_layers=51: the pattern has 52"),
        ("jamba-v0.1", {"attn_layer_offset": 8}, "attn_layer_offset=8, attn_layer_period=8"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [48]}, "mlp_only_layers=[48]"),
        ("vit-l-16", {"patch_size": 15}, "image_size=224, patch_size=15"),
        ("vit-l-16", {"id2label": {"0": "cat"}}, "id2label has 1 labels"),
    ],
)
def test_fields_that_contradict_each_other(
    name: str, changed: dict[str, object], message: str
) -> None:
    assert message in refusal(config(name, **changed))
