"""Towers and projectors, counted by hand or as torch executed them; and the language model alone."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.helpers.every import every

TEXT: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 7168,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "intermediate_size": 1024,
    "moe_intermediate_size": 64,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 1000,
    "add_cross_attention": False,
}
KIMI: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": TEXT,
    "vision_config": {
        "vt_hidden_size": 1152,
        "vt_num_hidden_layers": 2,
        "vt_num_attention_heads": 16,
        "vt_intermediate_size": 4304,
        "mm_hidden_size": 1152,
        "text_hidden_size": 7168,
        "merge_kernel_size": [2, 2],
        "patch_size": 14,
        "init_pos_emb_height": 64,
        "init_pos_emb_width": 64,
    },
}
FORWARD = flops.How(counting=flops.Counting(causal=False), passes=flops.Passes(forward_only=True))


def vision(config: dict[str, Any], image: int) -> int:
    """FLOPs of one forward pass of the tower and the projector."""
    counted = flops.count(flops.read(config), flops.fixed(1, tokens=8, image=image), FORWARD)
    return int(sum(line.model for line in counted.lines if line.term.name.startswith("vision")))


def test_kimi_is_what_torch_executed_of_its_tower() -> None:
    """Kimi_K25VisionModel and Kimi_K25MultimodalProjection of transformers 5.24 on 4 x 4 patches, under torch's
    counter: convolution 21,676,032, addmm 1,408,499,712, bmm 2,359,296."""
    assert vision(KIMI, 16) == 21_676_032 + 1_408_499_712 + 2_359_296


GEMMA: dict[str, Any] = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "audio_config": None,
    "text_config": {
        "hidden_size": 2816,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": 2,
        "attention_k_eq_v": True,
        "intermediate_size": 2112,
        "vocab_size": 1000,
    },
    "vision_config": {
        "hidden_size": 1152,
        "num_hidden_layers": 2,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 72,
        "intermediate_size": 4304,
        "patch_size": 16,
        "pooling_kernel_size": 3,
        "position_embedding_size": 10240,
    },
}


def test_gemma_4_is_what_torch_executed_but_for_the_pooling() -> None:
    """Gemma4VisionModel and Gemma4MultimodalEmbedder of transformers 5.24 on 6 x 6 patches: mm 2,996,011,008, bmm
    12,275,712, of which 4 x 36 x 1152 multiply-adds take means of 9 patches, without weights."""
    assert vision(GEMMA, 36) == 2_996_011_008 + 12_275_712 - 2 * 4 * 36 * 1152


@every([({}, 512, 8), ({"head_dim": 128}, 128, 8), ({"num_key_value_heads": 4}, 512, 4)])
def test_gemma_4_takes_what_its_wide_layers_do_not_say_from_the_others(
    stated: dict[str, int], wide: int, groups: int
) -> None:
    text = dict(GEMMA["text_config"])
    del text["global_head_dim"], text["num_global_key_value_heads"]

    def parameters(wide_layer: dict[str, int]) -> int:
        config = GEMMA | {"text_config": text | {"per_layer_config": {"1": wide_layer}}}
        return flops.count(flops.read(config), flops.fixed(1, tokens=8, image=36)).parameters.total

    assert parameters(stated) == parameters({"head_dim": wide, "num_key_value_heads": groups})


LLAMA: dict[str, Any] = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "text_config": {
        "hidden_size": 5120,
        "num_hidden_layers": 1,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "vocab_size": 1000,
    },
    "vision_config": {
        "hidden_size": 1408,
        "num_hidden_layers": 2,
        "num_attention_heads": 16,
        "intermediate_size": 5632,
        "num_channels": 3,
        "patch_size": 14,
        "image_size": 336,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
        "vision_output_dim": 4096,
        "pixel_shuffle_ratio": 0.5,
    },
}


def test_llama_4_by_hand() -> None:
    patches = 576
    layer = 4 * 1408**2 + 2 * 1408 * 5632
    linear = patches * (588 * 1408 + 2 * layer) + 2 * 2 * 1408 * patches**2
    projector = patches // 4 * (5632 * 4096 + 4096**2 + 4096 * 5120)
    assert vision(LLAMA, patches) == 2 * (linear + projector)


def test_a_configuration_without_a_tower_counts_the_language_model_and_says_so() -> None:
    alone = {name: value for name, value in LLAMA.items() if name != "vision_config"}
    model = flops.read(alone)
    assert model.streams == ("tokens",)
    assert "the language model alone" in model.notes[0]
    text = {**LLAMA["text_config"], "architectures": ["Llama4ForCausalLM"]}
    lengths = flops.fixed(1, tokens=64)
    of_text = flops.count(flops.read(text), lengths).model_flops_per_step
    assert flops.count(model, lengths).model_flops_per_step == of_text
    with_image = flops.fixed(1, tokens=64, image=0)
    assert flops.count(flops.read(LLAMA), with_image).model_flops_per_step == of_text


def test_what_is_not_known_is_refused() -> None:
    for changed, why in (
        ({"audio_config": {"hidden_size": 8}}, "audio towers are not counted"),
        ({"vision_config": {**GEMMA["vision_config"], "use_clipped_linears": True}}, "use_clipped"),
        ({"text_config": {**GEMMA["text_config"], "num_kv_shared_layers": 1}}, "num_kv_shared"),
    ):
        with pytest.raises(ConfigError, match=why):
            flops.read({**GEMMA, **changed})


@every([(GEMMA, 190_248_480, 36), (LLAMA, 2_322_427_392, 576)])
def test_parameters_are_those_of_the_classes_of_transformers(
    config: dict[str, Any], parameters: int, patches: int
) -> None:
    """Gemma4ForConditionalGeneration (hidden_size_per_layer_input 0) and Llama4's of transformers 5.24, on meta."""
    counted = flops.count(flops.read(config), flops.fixed(1, tokens=8, image=patches))
    assert counted.parameters.total == parameters
