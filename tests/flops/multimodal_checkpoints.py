"""Sizes of public checkpoints that read more than text, with the parameters that their safetensors index sums to.

As in tests/flops/checkpoints.py, which says what was compared; a row that fails is to be compared with its card first.
"""

from __future__ import annotations

from typing import Any

SIGLIP: dict[str, Any] = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27}
SIGLIP |= {"num_attention_heads": 16, "patch_size": 14}
SIGLIP |= {"vision_use_head": False, "model_type": "siglip_vision_model"}
CLIP_L: dict[str, Any] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
}
CLIP_L |= {"num_hidden_layers": 24, "num_attention_heads": 16, "patch_size": 14}
BASE: dict[str, Any] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
PIXELS: dict[str, Any] = {"num_channels": 3, "image_size": 224}


def _text(kind: str, sizes: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """Hidden size, width, layers, heads, groups, vocabulary of a language model."""
    names: tuple[str, ...] = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    )
    names += ("num_key_value_heads", "vocab_size")
    return {"model_type": kind, **dict(zip(names, sizes, strict=True)), **more}


def _gemma_3(*sizes: int, head_dim: int = 256) -> dict[str, Any]:
    text = _text("gemma3_text", (*sizes, 262208), head_dim=head_dim, sliding_window=1024)
    vision = {**SIGLIP, "image_size": 896}
    return {"mm_tokens_per_image": 256, "vision_config": vision, "text_config": text}


def _whisper(width: int, layers: int, heads: int, vocab: int, bins: int) -> dict[str, Any]:
    both: dict[str, Any] = {f"{side}_layers": layers for side in ("encoder", "decoder")}
    both |= {f"{side}_attention_heads": heads for side in ("encoder", "decoder")}
    both |= {f"{side}_ffn_dim": 4 * width for side in ("encoder", "decoder")}
    both |= {"max_source_positions": 1500, "max_target_positions": 448}
    return {**both, "d_model": width, "vocab_size": vocab, "num_mel_bins": bins}


def _clip(vision: dict[str, Any], width: int, heads: int) -> dict[str, Any]:
    text: dict[str, Any] = {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": 12,
    }
    text |= {"num_attention_heads": heads, "vocab_size": 49408, "max_position_embeddings": 77}
    return {"projection_dim": width, "vision_config": {**vision, **PIXELS}, "text_config": text}


def _swin(width: int, deep: int, heads: int) -> dict[str, Any]:
    sizes: dict[str, Any] = {"embed_dim": width, "depths": [2, 2, deep, 2], "num_labels": 1000}
    sizes |= {"num_heads": [heads, 2 * heads, 4 * heads, 8 * heads]}
    return {**sizes, **PIXELS, "patch_size": 4, "window_size": 7}


LLAMA_VISION: dict[str, Any] = {
    "text_config": _text(
        "mllama_text_model",
        (4096, 14336, 40, 32, 8, 128256),
        cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38],
    ),
    "vision_config": {
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_global_layers": 8,
        "attention_heads": 16,
        "image_size": 560,
        "patch_size": 14,
        "max_num_tiles": 4,
        "vision_output_dim": 7680,
        "intermediate_layers_indices": [3, 7, 15, 23, 30],
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
    },
}
SCOUT: dict[str, Any] = {
    "text_config": _text(
        "llama4_text",
        (5120, 8192, 48, 40, 8, 202048),
        head_dim=128,
        intermediate_size_mlp=16384,
        num_local_experts=16,
        num_experts_per_tok=1,
        attention_chunk_size=8192,
    ),
    "vision_config": {
        "model_type": "llama4_vision_model",
        "hidden_size": 1408,
        "intermediate_size": 5632,
        "num_hidden_layers": 34,
        "num_attention_heads": 16,
        "image_size": 336,
        "patch_size": 14,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
        "vision_output_dim": 4096,
    },
}
SMALL_3_1: dict[str, Any] = {
    "spatial_merge_size": 2,
    "text_config": _text("mistral", (5120, 32768, 40, 32, 8, 131072), head_dim=128),
    "vision_config": {
        "model_type": "pixtral",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "patch_size": 14,
        "head_dim": 64,
    },
}
DEBERTA: dict[str, Any] = {
    **BASE,
    "intermediate_size": 3072,
    "vocab_size": 128100,
    "type_vocab_size": 0,
}
DEBERTA |= {"relative_attention": True, "position_buckets": 256, "max_position_embeddings": 512}
DEBERTA |= {"pos_att_type": ["p2c", "c2p"], "share_att_key": True, "norm_rel_ebd": "layer_norm"}
SOUND: dict[str, Any] = {**BASE, "intermediate_size": 3072, "vocab_size": 32, "conv_dim": [512] * 7}
SOUND |= {"conv_kernel": [10, 3, 3, 3, 3, 2, 2], "conv_stride": [5, 2, 2, 2, 2, 2, 2]}
SOUND |= {"num_conv_pos_embeddings": 128, "num_conv_pos_embedding_groups": 16}

SEEN: dict[str, Any] = {**BASE, "model_type": "gemma4_vision", "num_hidden_layers": 16}
SEEN |= {"intermediate_size": 3072, "num_key_value_heads": 12, "head_dim": 64, "patch_size": 16}
SEEN |= {"pooling_kernel_size": 3, "position_embedding_size": 10240, "use_clipped_linears": True}
HEARD: dict[str, Any] = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8}
HEARD |= {"subsampling_conv_channels": [128, 32], "conv_kernel_size": 5, "output_proj_dims": 1536}
HEARD |= {"attention_chunk_size": 12, "attention_context_left": 13, "attention_context_right": 0}
EDGE: dict[str, Any] = {"hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144}
EDGE |= {"head_dim": 256, "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7}
EDGE |= {"sliding_window": 512}
GEMMA_4: dict[str, Any] = {
    "vision_config": SEEN,
    "audio_config": HEARD,
    "text_config": _text("gemma4_text", (1536, 6144, 35, 8, 1, 262144), **EDGE)
    | {"num_kv_shared_layers": 20, "use_double_wide_mlp": True, "global_head_dim": 512},
}
CONFORMER: dict[str, Any] = {f"conf_{name}": size for name, size in HEARD.items() if "att" in name}
CONFORMER |= {"conf_num_hidden_layers": 12, "conf_conv_kernel_size": 5, "conf_reduction_factor": 4}
CONFORMER |= {"hidden_size": 1536, "input_feat_size": 128, "sscp_conv_channel_size": [128, 32]}
CONFORMER |= {"sscp_conv_kernel_size": [[3, 3]] * 2, "sscp_conv_stride_size": [[2, 2]] * 2}
GEMMA_3N: dict[str, Any] = {
    "vision_config": {"hidden_size": 2048, "vocab_size": 128},
    "audio_config": {**CONFORMER, "vocab_size": 128},
    "text_config": _text("gemma3n_text", (2048, 16384, 35, 8, 2, 262400), **EDGE)
    | {"num_kv_shared_layers": 15, "laurel_rank": 64, "altup_num_inputs": 4},
}
UNUSED_3N = 15 * (2 * 2048 * 512 + 256)
"""Keys and values of the last 15 layers, which the checkpoint stores and no model class of today has."""

CONDITIONAL = "ForConditionalGeneration"
CHECKPOINTS: list[tuple[str, str, dict[str, Any], int]] = [
    (
        "google/gemma-3-4b-pt",
        f"Gemma3{CONDITIONAL}",
        _gemma_3(2560, 10240, 34, 8, 4),
        4_300_079_472,
    ),
    (
        "google/gemma-3-12b-pt",
        f"Gemma3{CONDITIONAL}",
        _gemma_3(3840, 15360, 48, 16, 8),
        12_187_325_040,
    ),
    (
        "google/gemma-3-27b-pt",
        f"Gemma3{CONDITIONAL}",
        _gemma_3(5376, 21504, 62, 32, 16, head_dim=128),
        27_432_406_640,
    ),
    ("google/gemma-4-E2B-it", f"Gemma4{CONDITIONAL}", GEMMA_4, 5_104_297_504),
    ("google/gemma-3n-E4B-it", f"Gemma3n{CONDITIONAL}", GEMMA_3N, 7_849_978_192 - UNUSED_3N),
    (
        "llava-hf/llava-1.5-7b-hf",
        f"Llava{CONDITIONAL}",
        {
            "vision_config": {**CLIP_L, "image_size": 336},
            "text_config": _text("llama", (4096, 11008, 32, 32, 32, 32064)),
        },
        7_063_427_072,
    ),
    (
        "google/paligemma-3b-pt-224",
        f"PaliGemma{CONDITIONAL}",
        {
            "vision_config": {**SIGLIP, "image_size": 224, "projection_dim": 2048},
            "text_config": _text("gemma", (2048, 16384, 18, 8, 1, 257216), head_dim=256),
        },
        2_923_466_480,
    ),
    (
        "meta-llama/Llama-3.2-11B-Vision",
        f"Mllama{CONDITIONAL}",
        {**LLAMA_VISION, "vision_config": {**LLAMA_VISION["vision_config"], "image_size": 448}},
        10_642_941_475,
    ),
    (
        "meta-llama/Llama-3.2-11B-Vision-Instruct",
        f"Mllama{CONDITIONAL}",
        LLAMA_VISION,
        10_670_220_835,
    ),
    ("meta-llama/Llama-4-Scout-17B-16E", f"Llama4{CONDITIONAL}", SCOUT, 108_641_793_536),
    (
        "mistralai/Mistral-Small-3.1-24B-Base-2503",
        f"Mistral3{CONDITIONAL}",
        SMALL_3_1,
        24_011_361_280,
    ),
    ("openai/whisper-tiny", f"Whisper{CONDITIONAL}", _whisper(384, 4, 6, 51865, 80), 37_760_640),
    (
        "openai/whisper-large-v3",
        f"Whisper{CONDITIONAL}",
        _whisper(1280, 32, 20, 51866, 128),
        1_543_490_560,
    ),
    ("openai/clip-vit-large-patch14", "CLIPModel", _clip(CLIP_L, 768, 12), 427_616_513),
    (
        "openai/clip-vit-base-patch32",
        "CLIPModel",
        _clip({**BASE, "intermediate_size": 3072, "patch_size": 32}, 512, 8),
        151_277_313,
    ),
    (
        "google/siglip-base-patch16-224",
        "SiglipModel",
        {
            "vision_config": {**BASE, **PIXELS, "intermediate_size": 3072, "patch_size": 16},
            "text_config": {**BASE, "intermediate_size": 3072, "vocab_size": 32000}
            | {"max_position_embeddings": 64},
        },
        203_155_970,
    ),
    (
        "facebook/wav2vec2-base-960h",
        "Wav2Vec2ForCTC",
        {**SOUND, "mask_time_prob": 0.05},
        94_396_320,
    ),
    (
        "facebook/dinov2-base",
        "Dinov2Model",
        {**BASE, **PIXELS, "mlp_ratio": 4, "image_size": 518, "patch_size": 14},
        86_580_480,
    ),
    (
        "facebook/dinov2-giant",
        "Dinov2Model",
        {"hidden_size": 1536, "num_hidden_layers": 40, "num_attention_heads": 24, **PIXELS}
        | {"mlp_ratio": 4, "image_size": 518, "patch_size": 14, "use_swiglu_ffn": True},
        1_136_480_768,
    ),
    (
        "facebook/dinov3-vitb16-pretrain-lvd1689m",
        "DINOv3ViTModel",
        {**BASE, **PIXELS, "intermediate_size": 3072, "patch_size": 16, "num_register_tokens": 4},
        85_660_416,
    ),
    (
        "microsoft/swin-tiny-patch4-window7-224",
        "SwinForImageClassification",
        _swin(96, 6, 3),
        28_288_354,
    ),
    (
        "microsoft/swin-base-patch4-window7-224",
        "SwinForImageClassification",
        _swin(128, 18, 4),
        87_768_224,
    ),
    (
        "microsoft/deberta-v3-base",
        "DebertaV2Model",
        {**DEBERTA, "position_biased_input": False},
        183_831_552,
    ),
    (
        "LiquidAI/LFM2-1.2B",
        "Lfm2ForCausalLM",
        {"hidden_size": 2048, "block_ff_dim": 12288, "num_hidden_layers": 16}
        | {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536}
        | {"conv_L_cache": 3, "full_attn_idxs": [2, 5, 8, 10, 12, 14]},
        1_170_340_608,
    ),
    (
        "tencent/Hunyuan-A13B-Pretrain",
        "HunYuanMoEV1ForCausalLM",
        {"hidden_size": 4096, "intermediate_size": 3072, "num_hidden_layers": 32, "head_dim": 128}
        | {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128167}
        | {"num_experts": 64, "moe_topk": 8, "tie_word_embeddings": True},
        80_393_183_232,
    ),
]
