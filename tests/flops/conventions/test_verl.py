"""verl's count of models that read images: what its own functions returned (verl-project/verl 1dda039b, 2026-08-22)."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.counting import config

ONE: tuple[list[int], list[int]] = ([1536], [4096])
SEVERAL: tuple[list[int], list[int]] = ([1536, 700, 1], [4096, 1024])
"""Tokens of the sequences, patches of the images."""
QWEN3_VL_MOE = {
    "hidden_size": 2048,
    "vocab_size": 151936,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "num_attention_heads": 32,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
DELTA_NET = {
    "vocab_size": 248320,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "attn_output_gate": True,
}
QWEN35 = {
    **DELTA_NET,
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_key_value_heads": 4,
    "num_attention_heads": 24,
    "intermediate_size": 17408,
    "linear_num_value_heads": 48,
}
QWEN35_MOE = {
    **DELTA_NET,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_key_value_heads": 2,
    "num_attention_heads": 16,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "linear_num_value_heads": 32,
}


def composed(architecture: str, text: dict[str, Any], **vision: object) -> dict[str, Any]:
    """The text model of these sizes behind the vision tower of Qwen3-VL-8B, as wide as it must be."""
    tower = config("qwen3-vl-8b")["vision_config"]
    if every := text["num_hidden_layers"] if "linear_num_key_heads" in text else 0:
        kinds = ["linear_attention"] * 3 + ["full_attention"]
        text = {**text, "layer_types": kinds * (every // 4)}
    return {
        "architectures": [f"{architecture}ForConditionalGeneration"],
        "tie_word_embeddings": False,
        "text_config": {"hidden_act": "silu", **text},
        "vision_config": {**tower, "out_hidden_size": text["hidden_size"], **vision},
    }


NARROW = {**config("qwen3-vl-8b")["text_config"], "hidden_size": 2560, "intermediate_size": 9728}
"""Heads of 128, which verl takes for 2560 / 32 wide."""
MODELS = {
    "qwen2.5-vl-7b": config("qwen2.5-vl-7b"),
    "qwen3-vl-8b": config("qwen3-vl-8b"),
    "narrow": composed("Qwen3VL", NARROW),
    "qwen3-vl-moe": composed("Qwen3VLMoe", QWEN3_VL_MOE),
    "qwen3.5": composed("Qwen3_5", QWEN35, deepstack_visual_indexes=[]),
    "qwen3.5-moe": composed("Qwen3_5Moe", QWEN35_MOE, deepstack_visual_indexes=[]),
}


@pytest.mark.parametrize(
    ("name", "one", "several"),
    [
        ("qwen2.5-vl-7b", 93_020_888_236_032, 129_154_086_088_704),
        ("qwen3-vl-8b", 97_921_127_153_664, 136_717_147_668_480),
        ("narrow", 58_351_996_108_800, 79_427_709_136_896),
        ("qwen3-vl-moe", 53_105_827_774_464, 71_467_459_018_752),
        ("qwen3.5", 267_638_236_250_112, 384_649_172_680_704),
        ("qwen3.5-moe", 49_943_540_662_272, 67_876_599_054_336),
    ],
)
def test_equal_to_upstream(name: str, one: int, several: int) -> None:
    model = flops.read(MODELS[name])
    for (tokens, patches), expected in ((ONE, one), (SEVERAL, several)):
        lengths = flops.packed(tokens) + flops.packed(patches, "image")
        counted = flops.count(model, lengths, flops.How("verl"))
        assert counted.model_flops_per_step == expected
    assert any("mergers" in text for text in counted.warnings)


def test_it_is_said_where_upstream_fails() -> None:
    """Its function reads `vision_config.intermediate_size`, which Qwen2-VL does not have."""
    lengths = flops.packed([1536]) + flops.packed([4096], "image")
    with pytest.raises(
        ConfigError, match=r"verl fails without its vision_config\.intermediate_size"
    ):
        flops.count(flops.read(config("qwen2-vl-7b")), lengths, flops.How("verl"))


def test_the_text_model_of_qwen35_alone_is_not_in_the_table() -> None:
    of = {**MODELS["qwen3.5"]["text_config"], "architectures": ["Qwen3_5ForCausalLM"]}
    with pytest.raises(ConfigError, match="which verl counts as 0"):
        flops.count(flops.read(of), flops.packed([1536]), flops.How("verl"))
