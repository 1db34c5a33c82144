"""Small models of every architecture that has a closed form: sizes that differ wherever they can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.flops.small_decoders import (
    BART,
    DECODERS,
    DENSE,
    ENCODER,
    GROUPED,
    HYBRIDS,
    IMAGE,
    LATENT,
    MODERN,
    NARROW_EXPERTS,
    ROUTED,
    T5,
    WIDE,
)


@dataclass(frozen=True)
class Small:
    """A small model and the inputs that it is run on."""

    architecture: str
    fields: Mapping[str, Any]
    streams: Mapping[str, int] = field(default_factory=lambda: {"tokens": 32})
    scans: bool = False
    given: Mapping[str, int] = field(default_factory=dict)
    """The inputs of the run, where they have other names than the streams of the count."""
    unused: int = 0
    """Parameters that transformers stores and never uses."""
    variant: str = ""
    fixed: tuple[str, ...] = ()
    """Fields that no change is tried of, because torch then executes something else than the model needs."""

    @property
    def name(self) -> str:
        return f"{self.architecture} {self.variant}".strip()


HYBRID: dict[str, Any] = {**GROUPED, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 32}
HYBRID |= {"layer_types": ["linear_attention", "full_attention"] * 2}
SPARSE: dict[str, Any] = {
    **LATENT,
    "n_group": 1,
    "topk_group": 1,
    "index_n_heads": 3,
    "index_head_dim": 20,
}
SPARSE |= {"index_topk": 16}
LFM: dict[str, Any] = {**GROUPED, "layer_types": ["conv", "full_attention"] * 2}
KIMI: dict[str, Any] = {
    name: value for name, value in SPARSE.items() if not name.startswith(("index", "n_"))
}
KIMI |= {"num_experts": 8, "num_experts_per_token": 2, "num_shared_experts": 2}
KIMI |= {"linear_num_heads": 3, "linear_head_dim": 20, "num_expert_group": 1}
KIMI |= {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}
KIMI |= {"layer_types": ["linear_attention", "full_attention"] * 2}
LLAMA4: dict[str, Any] = {**WIDE, "intermediate_size_mlp": 200, "attention_chunk_size": 8}
EVERY_EXPERT = ("num_local_experts", "num_experts_per_tok")
# transformers runs each token through every expert, and multiplies by 0.
LLAMA4 |= {"num_local_experts": 4, "num_experts_per_tok": 4, "interleave_moe_layer_step": 2}

ZAMBA: dict[str, Any] = {**LATENT, "layers_block_type": ["linear_attention", "hybrid"] * 2}
ZAMBA = {name: ZAMBA[name] for name in (*DENSE, "num_key_value_heads", "layers_block_type")}
ZAMBA |= {"n_mamba_heads": 8, "mamba_headdim": 16, "num_mem_blocks": 2}
GEMMA: dict[str, Any] = {**WIDE, "num_kv_shared_layers": 2, "vocab_size_per_layer_input": 100}
GEMMA |= {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 8}
GEMMA |= {"hidden_size_per_layer_input": 20}
EQUAL: dict[str, Any] = {**GEMMA, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}
EQUAL |= {"attention_k_eq_v": True, "enable_moe_block": True, "num_experts": 8}
EQUAL |= {"top_k_experts": 2, "moe_intermediate_size": 48, "num_global_key_value_heads": 1}

TEXT: list[Small] = [
    *(
        Small(architecture, fields, variant=str(n))
        for n, (architecture, fields) in enumerate(DECODERS)
    ),
    *(
        Small(architecture, fields, scans=True, variant=str(n))
        for n, (architecture, fields, _) in enumerate(HYBRIDS)
    ),
    Small(
        "FalconMambaForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 320, "state_size": 16},
        scans=True,
    ),
    Small(
        "GraniteMoeHybridForCausalLM",
        {
            **HYBRID,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 96,
        },
        scans=True,
    ),
    Small(
        "GraniteMoeHybridForCausalLM",
        {**HYBRID, "num_local_experts": 0, "shared_intermediate_size": 96},
        scans=True,
        variant="dense",
    ),
    Small("HunYuanMoEV1ForCausalLM", {**WIDE, "num_experts": 8, "moe_topk": 2}),
    Small("Llama4ForCausalLM", LLAMA4, fixed=EVERY_EXPERT),
    Small("Glm4MoeLiteForCausalLM", {**LATENT, "n_group": 1, "topk_group": 1}),
    Small("DeepseekV32ForCausalLM", SPARSE),
    Small("GlmMoeDsaForCausalLM", {**SPARSE, "indexer_types": ["full", "shared", "full", "full"]}),
    Small("Gemma3nForCausalLM", {**GEMMA, "laurel_rank": 12}),
    Small("Gemma4ForCausalLM", {**GEMMA, "use_double_wide_mlp": True}),
    Small("Gemma4ForCausalLM", EQUAL, variant="equal"),
    Small("Zamba2ForCausalLM", ZAMBA, scans=True),
    Small(
        "Zamba2ForCausalLM",
        {**ZAMBA, "use_shared_attention_adapter": True},
        scans=True,
        variant="adapted",
    ),
    Small("KimiLinearForCausalLM", KIMI, scans=True),
    Small("Lfm2ForCausalLM", LFM, scans=True),
    Small(
        "Lfm2MoeForCausalLM",
        {**LFM, "moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2}
        | {"num_dense_layers": 1},
        scans=True,
    ),
]

V2: dict[str, Any] = {name: value for name, value in IMAGE.items() if name != "intermediate_size"}
PIXELS: dict[str, int] = {}
TOWERS: list[Small] = [
    *(
        Small(name, {**IMAGE, "num_labels": 10}, PIXELS)
        for name in (
            "ViTForImageClassification",
            "ViTModel",
            "DeiTForImageClassification",
            "CLIPVisionModel",
            "SiglipVisionModel",
        )
    ),
    *(
        Small(name, {"vision_config": {**IMAGE}, "num_labels": 10}, PIXELS)
        for name in ("CLIPForImageClassification", "SiglipForImageClassification")
    ),
    Small("Dinov2Model", {**V2, "mlp_ratio": 3}, PIXELS),
    Small("Dinov2ForImageClassification", {**V2, "num_labels": 10}, PIXELS),
    Small("Dinov2WithRegistersModel", {**V2, "num_register_tokens": 3}, PIXELS),
    Small("Dinov2WithRegistersForImageClassification", {**V2, "num_labels": 10}, PIXELS),
    Small("DINOv3ViTModel", {**IMAGE, "num_register_tokens": 3}, PIXELS),
]

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
WHISPER: dict[str, Any] = {
    **BART,
    "num_mel_bins": 10,
    "max_source_positions": 20,
    "max_target_positions": 30,
}
WHISPER |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SOUND: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 50,
}
SOUND |= {"intermediate_size": 80, "conv_dim": [12, 16, 16, 16, 16, 16, 20]}
SOUND |= {"num_conv_pos_embedding_groups": 4, "num_conv_pos_embeddings": 8}
LAYERED: dict[str, Any] = {
    **SOUND,
    "feat_extract_norm": "layer",
    "conv_bias": True,
    "do_stable_layer_norm": True,
}
SPEECH: list[Small] = [
    Small("WhisperForConditionalGeneration", WHISPER, {"target": 9}),
    Small("Wav2Vec2ForCTC", SOUND, {"audio": 4003}),
    Small("Wav2Vec2Model", LAYERED, {"audio": 4003}),
    Small("HubertForCTC", LAYERED, {"audio": 4003}),
    Small("HubertModel", {**SOUND, "num_conv_pos_embeddings": 7}, {"audio": 4003}),
]
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
TEXT_TOWER: dict[str, Any] = {**ENCODER, "max_position_embeddings": 40, "num_hidden_layers": 3}
PAIR: dict[str, Any] = {"tokens": 16}
GIVEN: dict[str, Any] = {"tokens": 16, "images": 1}
SWIN: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 1],
    "num_heads": [2, 4],
}
SWIN |= {"window_size": 5, "mlp_ratio": 3.0}
V3: dict[str, Any] = {
    **ENCODER,
    "relative_attention": True,
    "position_buckets": 8,
    "pos_att_type": ["p2c", "c2p"],
}
V3 |= {"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False}
V3 |= {"type_vocab_size": 0, "max_position_embeddings": 64}
V1: dict[str, Any] = {**ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
V1 |= {"max_position_embeddings": 64, "position_biased_input": False, "type_vocab_size": 0}
PAIRS: list[Small] = [
    Small(
        "CLIPModel",
        {"text_config": TEXT_TOWER, "vision_config": IMAGE, "projection_dim": 24},
        PAIR,
        given=GIVEN,
    ),
    Small(
        "SiglipModel",
        {"text_config": {**TEXT_TOWER, "projection_size": 32}, "vision_config": IMAGE},
        PAIR,
        given=GIVEN,
    ),
    Small("CLIPTextModel", TEXT_TOWER, PAIR),
    Small("SiglipTextModel", {**TEXT_TOWER, "projection_size": 24}, PAIR),
    Small("SwinModel", SWIN, PIXELS),
    Small("SwinForImageClassification", {**SWIN, "num_labels": 10, "window_size": 4}, PIXELS),
    Small("DebertaV2ForMaskedLM", {**V3, "conv_kernel_size": 3}, PAIR),
    Small(
        "DebertaV2ForMaskedLM",
        {**V3, "share_att_key": False, "pos_att_type": ["c2p"]},
        PAIR,
        variant="c2p",
    ),
    Small("DebertaV2Model", V3, PAIR),
    *(
        Small(name, {**V1, "max_relative_positions": span}, PAIR, variant=f"to {span}")
        for name in ("DebertaForMaskedLM", "DebertaModel")
        for span in (7, 24)
    ),
    Small("ElectraForPreTraining", {**ENCODER, "embedding_size": 24}, PAIR),
    Small("ElectraForMaskedLM", {**ENCODER, "embedding_size": 24}, PAIR),
    Small("ElectraModel", {**ENCODER, "embedding_size": 32}, PAIR),
    *(
        Small(name, ENCODER, PAIR)
        for name in (
            "BertForMaskedLM",
            "BertForPreTraining",
            "RobertaForMaskedLM",
            "CamembertForMaskedLM",
        )
    ),
    Small("ModernBertForMaskedLM", MODERN, PAIR),
    *(
        Small(name, fields, {"source": 16, "target": 9})
        for name, fields in (
            ("T5ForConditionalGeneration", T5),
            ("MT5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}),
            ("BartForConditionalGeneration", BART),
        )
    ),
]

SMALL: list[Small] = [*TEXT, *TOWERS, *COMPOSED, *MOBILE, *SPEECH, *PAIRS]
