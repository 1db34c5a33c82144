"""Small models that torch runs with random weights: sizes that differ wherever they can."""

from __future__ import annotations

from typing import Any

DENSE = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 320,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**DENSE, "num_key_value_heads": 2}
WIDE = {**GROUPED, "head_dim": 24}
ROUTED = {**GROUPED, "num_experts_per_tok": 2}
NARROW_EXPERTS = {**ROUTED, "moe_intermediate_size": 48, "head_dim": 24}
LATENT = {
    **DENSE,
    "num_key_value_heads": 4,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 8,
    "moe_intermediate_size": 48,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
OPT = {name: value for name, value in DENSE.items() if name != "intermediate_size"}
FALCON = dict(OPT)
OPT |= {"ffn_dim": 160}
GPT = {"n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 320, "n_positions": 64}
GPT |= {"bos_token_id": 1, "eos_token_id": 2}

DECODERS: list[tuple[str, dict[str, Any]]] = [
    ("LlamaForCausalLM", GROUPED),
    ("MistralForCausalLM", WIDE),
    ("Qwen2ForCausalLM", GROUPED),
    ("Qwen3ForCausalLM", WIDE),
    ("SeedOssForCausalLM", WIDE),
    ("GraniteForCausalLM", GROUPED),
    ("GemmaForCausalLM", WIDE),
    ("Gemma2ForCausalLM", {**WIDE, "sliding_window": 8}),
    ("Gemma3ForCausalLM", WIDE),
    ("Olmo2ForCausalLM", GROUPED),
    ("Olmo3ForCausalLM", GROUPED),
    ("OlmoForCausalLM", GROUPED),
    ("SmolLM3ForCausalLM", GROUPED),
    ("MinistralForCausalLM", {**WIDE, "sliding_window": 8}),
    ("Ministral3ForCausalLM", WIDE),
    ("Exaone4ForCausalLM", GROUPED),
    ("HunYuanDenseV1ForCausalLM", WIDE),
    ("Ernie4_5ForCausalLM", WIDE),
    ("Ernie4_5ForCausalLM", {**WIDE, "use_bias": True}),
    ("CohereForCausalLM", GROUPED),
    ("CohereForCausalLM", {**GROUPED, "use_qk_norm": True}),
    ("Cohere2ForCausalLM", GROUPED),
    ("GlmForCausalLM", WIDE),
    ("Glm4ForCausalLM", WIDE),
    ("ArceeForCausalLM", GROUPED),
    ("NemotronForCausalLM", WIDE),
    ("ApertusForCausalLM", GROUPED),
    ("StableLmForCausalLM", GROUPED),
    (
        "StableLmForCausalLM",
        {**GROUPED, "use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True},
    ),
    ("FalconForCausalLM", {**FALCON, "ffn_hidden_size": 160}),
    ("FalconForCausalLM", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("FalconForCausalLM", {**FALCON, "multi_query": False, "parallel_attn": False, "bias": True}),
    ("MptForCausalLM", {"d_model": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 320}),
    ("PhiForCausalLM", DENSE),
    ("PhiForCausalLM", {**DENSE, "qk_layernorm": True}),
    ("Phi3ForCausalLM", GROUPED),
    ("Starcoder2ForCausalLM", GROUPED),
    ("GPT2LMHeadModel", GPT),
    ("GPTJForCausalLM", {**GPT, "rotary_dim": 8}),
    ("GPTNeoXForCausalLM", DENSE),
    ("OPTForCausalLM", {**OPT, "word_embed_proj_dim": 64}),
    ("OPTForCausalLM", {**OPT, "word_embed_proj_dim": 32, "do_layer_norm_before": False}),
    ("BloomForCausalLM", {"hidden_size": 64, "n_layer": 4, "n_head": 4, "vocab_size": 320}),
    ("Qwen2ForSequenceClassification", {**GROUPED, "num_labels": 3}),
    ("Gemma2ForSequenceClassification", {**WIDE, "num_labels": 1}),
    ("PhiForSequenceClassification", {**DENSE, "num_labels": 1}),
    ("MixtralForCausalLM", {**ROUTED, "num_local_experts": 8}),
    ("OlmoeForCausalLM", {**ROUTED, "num_experts": 8}),
    ("FlexOlmoForCausalLM", {**ROUTED, "num_experts": 8}),
    ("GraniteMoeForCausalLM", {**ROUTED, "num_local_experts": 8}),
    (
        "GraniteMoeSharedForCausalLM",
        {**ROUTED, "num_local_experts": 8, "shared_intermediate_size": 96},
    ),
    (
        "PhimoeForCausalLM",
        {**ROUTED, "num_local_experts": 8, "attention_bias": True, "lm_head_bias": True},
    ),
    ("MiniMaxM2ForCausalLM", {**ROUTED, "num_local_experts": 8, "head_dim": 24}),
    (
        "Ernie4_5_MoeForCausalLM",
        {**GROUPED, "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 48}
        | {"moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_num_shared_experts": 1},
    ),
    (
        "Qwen2MoeForCausalLM",
        {**ROUTED, "num_experts": 8, "moe_intermediate_size": 48}
        | {"shared_expert_intermediate_size": 96, "decoder_sparse_step": 2},
    ),
    ("Qwen3MoeForCausalLM", {**NARROW_EXPERTS, "num_experts": 8, "mlp_only_layers": [1]}),
    (
        "Glm4MoeForCausalLM",
        {
            **NARROW_EXPERTS,
            "n_routed_experts": 8,
            "num_nextn_predict_layers": 0,
            "use_qk_norm": True,
        },
    ),
    ("GptOssForCausalLM", {**ROUTED, "num_local_experts": 8, "head_dim": 24}),
    (
        "DeepseekV3ForCausalLM",
        {**LATENT, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0},
    ),
    ("DeepseekV2ForCausalLM", {**LATENT, "q_lora_rank": None}),
]

NEMOTRON: dict[str, Any] = {
    name: value for name, value in NARROW_EXPERTS.items() if name != "num_hidden_layers"
}
NEMOTRON |= {"layers_block_type": ["linear_attention", "mlp", "full_attention", "moe"]}
NEMOTRON |= {"mamba_num_heads": 4, "mamba_head_dim": 24, "n_groups": 2, "ssm_state_size": 16}
NEMOTRON |= {"n_routed_experts": 8, "moe_shared_expert_intermediate_size": 40}

HYBRIDS: list[tuple[str, dict[str, Any], int]] = [
    ("NemotronHForCausalLM", NEMOTRON, 8),
    ("NemotronHForCausalLM", {**NEMOTRON, "moe_latent_size": 24}, 8),
    (
        "JambaForCausalLM",
        {**ROUTED, "num_experts": 4, "attn_layer_period": 4, "attn_layer_offset": 2}
        | {"mamba_dt_rank": 6, "use_mamba_kernels": False},
        0,
    ),
    (
        "BambaForCausalLM",
        {**GROUPED, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 16}
        | {"mamba_n_groups": 1, "mamba_d_state": 16},
        0,
    ),
    (
        "Qwen3_5ForCausalLM",
        {**WIDE, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
        | {"linear_key_head_dim": 16, "linear_value_head_dim": 16},
        0,
    ),
    (
        "Qwen3_5MoeForCausalLM",
        {**NARROW_EXPERTS, "num_experts": 8, "shared_expert_intermediate_size": 48}
        | {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
        | {"linear_key_head_dim": 16, "linear_value_head_dim": 16},
        0,
    ),
    (
        "FalconH1ForCausalLM",
        {**WIDE, "mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16}
        | {"mamba_n_groups": 2, "mamba_d_state": 16, "mamba_rms_norm": True},
        0,
    ),
    (
        "FalconH1ForCausalLM",
        {**WIDE, "mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16},
        0,
    ),
    (
        "Mamba2ForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "num_heads": 8, "head_dim": 16}
        | {"vocab_size": 320, "n_groups": 2, "state_size": 16},
        0,
    ),
    (
        "MambaForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 320, "state_size": 16},
        0,
    ),
    (
        "Qwen3NextForCausalLM",
        {**NARROW_EXPERTS, "num_experts": 8, "shared_expert_intermediate_size": 48}
        | {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
        | {"linear_key_head_dim": 16, "linear_value_head_dim": 16},
        0,
    ),
]


IMAGE = {"hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 2}
IMAGE |= {"num_attention_heads": 4, "image_size": 32, "patch_size": 8}


ENCODER = {**DENSE, "hidden_size": 32, "intermediate_size": 80}
MODERN = {**ENCODER, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8}
