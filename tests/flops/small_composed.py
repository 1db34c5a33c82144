"""Small models that read images, videos or sounds beside a text: a tower before a language model."""

from __future__ import annotations

from typing import Any

from tests.flops.small_decoders import GROUPED, IMAGE, LATENT, NARROW_EXPERTS, ROUTED, WIDE
from tests.flops.small_texts import GEMMA, LLAMA4, Small

TILES: dict[str, Any] = {"tokens": 64, "images": 1}


def composed(kind: str, text: str, vision: str, /, **fields: Any) -> Small:
    """A small tower before a small language model, each by its model_type."""
    wide = {**WIDE, **({"model_type": text} if text else {})}
    seen = {**IMAGE, **({"model_type": vision} if vision else {})}
    fields = {"image_token_index": 300, "image_token_id": 300, **fields}
    fields["text_config"] = {**wide, **fields.pop("text", {})}
    fields["vision_config"] = {**seen, **fields.pop("vision", {})}
    return Small(
        f"{kind}ForConditionalGeneration", fields, fields.pop("streams", TILES), variant=text
    )


CLIP, SIGLIP = "clip_vision_model", "siglip_vision_model"
SHUFFLED: dict[str, Any] = {"intermediate_size": 128, "vision_output_dim": 56}
SHUFFLED |= {"projector_input_dim": 56, "projector_output_dim": 56}
COMPOSED: list[Small] = [
    composed("Llava", "llama", CLIP),
    composed(
        "Llava",
        "qwen3_moe",
        SIGLIP,
        text={**ROUTED, "moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2},
        vision_feature_select_strategy="full",
    ),
    composed(
        "LlavaNext",
        "mistral",
        CLIP,
        image_grid_pinpoints=[[32, 64]],
        streams={"tokens": 128, "images": 3},
    ),
    composed(
        "LlavaNextVideo",
        "llama",
        CLIP,
        image_grid_pinpoints=[[32, 64]],
        streams={"tokens": 128, "images": 3},
    ),
    composed(
        "LlavaOnevision",
        "qwen2",
        SIGLIP,
        image_grid_pinpoints=[[32, 64]],
        streams={"tokens": 128, "images": 3},
    ),
    composed("VipLlava", "llama", CLIP, vision_feature_layer=[-1, 0]),
    composed("PaliGemma", "gemma", SIGLIP, projection_dim=64),
    composed("Gemma3", "", "", mm_tokens_per_image=4),
    composed("AyaVision", "cohere2", SIGLIP),
    composed("Cohere2Vision", "cohere2", SIGLIP, alignment_intermediate_size=72),
    composed("InternVL", "qwen2", "", vision={"image_size": [32, 32], "patch_size": [8, 8]}),
    composed("Idefics3", "llama", ""),
    composed("SmolVLM", "llama", ""),
    composed("Llama4", "", "", text=LLAMA4, vision=SHUFFLED),
    composed(
        "Mistral3",
        "mistral",
        "pixtral",
        vision={"head_dim": 8},
        streams={"tokens": 64, "image": 16},
    ),
    composed(
        "Mistral3",
        "ministral3",
        "pixtral",
        vision={"head_dim": 8},
        streams={"tokens": 64, "image": 16},
    ),
]
PATCHES: dict[str, Any] = {"tokens": 64, "image": 16}
FREE: dict[str, Any] = {name: value for name, value in IMAGE.items() if name != "image_size"}
GLM: dict[str, Any] = {"depth": 2, "hidden_size": 32, "num_heads": 4, "intermediate_size": 80}
GLM |= {"out_hidden_size": 64, "patch_size": 4, "image_size": 32}
MROPE: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
COMPOSED += [
    composed(
        "Glm4v",
        "",
        "",
        text={"head_dim": 16, "rope_parameters": {**MROPE, "mrope_section": [2, 1, 1]}},
        vision=GLM,
        streams=PATCHES,
    ),
    composed(
        "Glm4vMoe",
        "",
        "",
        text={
            **NARROW_EXPERTS,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
        }
        | {"rope_parameters": {**MROPE, "mrope_section": [2, 2, 2]}},
        vision=GLM,
        streams=PATCHES,
    ),
]
COMPOSED += [
    Small(
        "Kimi_K25ForConditionalGeneration",
        {
            "text_config": {**LATENT, "model_type": "deepseek_v3", "n_group": 1, "topk_group": 1},
            "vision_config": {**FREE, "pos_emb_height": 8, "pos_emb_width": 6, "pos_emb_time": 2},
            "projection_hidden_size": 32,
            "image_token_id": 300,
        },
        PATCHES,
        fixed=("num_nextn_predict_layers",),
    ),
    Small(
        "Lfm2VlForConditionalGeneration",
        {
            "text_config": {**GROUPED, "layer_types": ["full_attention"] * 4},
            "vision_config": {**FREE, "num_patches": 16},
            "projector_hidden_size": 72,
            "image_token_id": 300,
        },
        PATCHES,
    ),
]
SEEN: dict[str, Any] = {
    **FREE,
    "head_dim": 8,
    "num_key_value_heads": 4,
    "position_embedding_size": 50,
}
HEARD: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
HEARD |= {"subsampling_conv_channels": [12, 6], "output_proj_dims": 40, "conv_kernel_size": 3}
HEARD |= {"attention_chunk_size": 6, "attention_context_left": 5, "attention_context_right": 2}
GEMMA_4: dict[str, Any] = {"text_config": GEMMA, "image_token_id": 300, "audio_token_id": 301}
GEMMA_4 |= {"vision_config": SEEN}
COMPOSED += [
    Small("Gemma4ForConditionalGeneration", GEMMA_4, {"tokens": 64, "image": 36}),
    Small(
        "Gemma4ForConditionalGeneration",
        {**GEMMA_4, "audio_config": HEARD},
        {"tokens": 64, "image": 36, "audio": 101},
        variant="sound",
    ),
    composed(
        "VideoLlava",
        "llama",
        CLIP,
        video_token_index=301,
        streams={"tokens": 128, "images": 1, "frames": 3},
    ),
]
HEARD_3N: dict[str, Any] = {"hidden_size": 32, "vocab_size": 9, "sscp_conv_channel_size": [12, 6]}
HEARD_3N |= {"input_feat_size": 20, "conf_num_attention_heads": 4, "conf_num_hidden_layers": 2}
HEARD_3N |= {"conf_attention_chunk_size": 6, "conf_attention_context_left": 5}
HEARD_3N |= {"conf_attention_context_right": 2, "conf_conv_kernel_size": 3}
GEMMA_3N: dict[str, Any] = {
    "text_config": {**GEMMA, "laurel_rank": 12, "vocab_size": 600},
    "audio_config": {**HEARD_3N, "vocab_offset": 511},
    "vision_config": {"vocab_size": 11, "vocab_offset": 500},
    "image_token_id": 400,
    "audio_token_id": 401,
    "audio_soft_tokens_per_image": 30,
}
MOBILE: list[Small] = [
    Small(
        "Gemma3nForConditionalGeneration",
        GEMMA_3N,
        {"tokens": 320, "images": 1, "audio": 101},
        fixed=(*GEMMA_3N, "vision_soft_tokens_per_image"),
    ),
    Small(
        "Gemma3nForConditionalGeneration",
        GEMMA_3N,
        {"tokens": 64, "images": 0, "audio": 101},
        given={"tokens": 64, "audio": 101},
        variant="sound",
        fixed=("audio_soft_tokens_per_image", "vision_config", "vision_soft_tokens_per_image"),
    ),
]
"""Models whose vision tower is one of timm, which has one size."""
MLLAMA: dict[str, Any] = {
    "text_config": {**GROUPED, "cross_attention_layers": [1, 3]},
    "image_token_index": 300,
}
MLLAMA["vision_config"] = {
    **{name: value for name, value in IMAGE.items() if name != "num_attention_heads"},
    "attention_heads": 4,
    "num_global_layers": 3,
    "intermediate_layers_indices": [0, 1],
    "vision_output_dim": 96,
}
COMPOSED.append(Small("MllamaForConditionalGeneration", MLLAMA, TILES))
