"""Sizes of public checkpoints that read more than text, with the parameters that their safetensors index sums to.

As in tests/flops/checkpoints.py, which says what was compared; a row that fails is to be compared with its card first.
"""

from __future__ import annotations

from typing import Any

BASE: dict[str, Any] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
PIXELS: dict[str, Any] = {"num_channels": 3, "image_size": 224}


def _whisper(width: int, layers: int, heads: int, vocab: int, bins: int) -> dict[str, Any]:
    both: dict[str, Any] = {f"{side}_layers": layers for side in ("encoder", "decoder")}
    both |= {f"{side}_attention_heads": heads for side in ("encoder", "decoder")}
    both |= {f"{side}_ffn_dim": 4 * width for side in ("encoder", "decoder")}
    both |= {"max_source_positions": 1500, "max_target_positions": 448}
    return {**both, "d_model": width, "vocab_size": vocab, "num_mel_bins": bins}


CONDITIONAL = "ForConditionalGeneration"
CHECKPOINTS: list[tuple[str, str, dict[str, Any], int]] = [
    ("openai/whisper-tiny", f"Whisper{CONDITIONAL}", _whisper(384, 4, 6, 51865, 80), 37_760_640),
    (
        "openai/whisper-large-v3",
        f"Whisper{CONDITIONAL}",
        _whisper(1280, 32, 20, 51866, 128),
        1_543_490_560,
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
