"""Denoisers that people train are executed on what their pipelines hand them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from tests.flops.trace.real_counts import real_forward

torch: Any = pytest.importorskip("torch", reason="pip install --group test-torch")
diffusers: Any = pytest.importorskip("diffusers", reason="pip install --group test-torch")
Made = tuple[str, dict[str, Any], dict[str, Any]]
"""A class, the fields of its configuration, and the inputs of its forward pass."""
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
from_config = importlib.import_module("ofu_exporter.flops.trace.from_config")

HEADS = {"num_attention_heads": 2, "num_layers": 2}
LATENT, PROMPT, SIDE = 16, 5, 8
"""Sixteen patches of 2 x 2 make a square of 8 x 8; the prompt is as short as any."""


def text(width: int) -> Any:
    return torch.randn(1, PROMPT, width)


def now() -> Any:
    return torch.ones(1)


def ones() -> Any:
    return torch.ones(1, PROMPT, dtype=torch.long)


def pixart() -> Made:
    fields: dict[str, Any] = {
        **HEADS,
        "attention_head_dim": 12,
        "cross_attention_dim": 24,
        "sample_size": 128,
    }
    sizes = {"resolution": torch.ones(1, 2), "aspect_ratio": torch.ones(1, 1)}
    inputs = {"hidden_states": torch.randn(1, 4, SIDE, SIDE), "encoder_hidden_states": text(12)}
    fields |= {"caption_channels": 12}
    return (
        "PixArtTransformer2DModel",
        fields,
        {**inputs, "timestep": now(), "added_cond_kwargs": sizes},
    )


def hunyuan_video(frames: int = 1) -> Made:
    fields: dict[str, Any] = {
        **HEADS,
        "attention_head_dim": 16,
        "num_single_layers": 1,
        "num_refiner_layers": 1,
    }
    fields |= {"in_channels": 4, "text_embed_dim": 12, "pooled_projection_dim": 6}
    fields |= {"rope_axes_dim": [4, 6, 6]}
    inputs = {"hidden_states": torch.randn(1, 4, frames, SIDE, SIDE), "timestep": now()}
    inputs |= {"encoder_hidden_states": text(12), "encoder_attention_mask": ones()}
    inputs |= {"pooled_projections": torch.randn(1, 6), "guidance": now()}
    return "HunyuanVideoTransformer3DModel", fields, inputs


def ltx_video(frames: int = 1) -> Made:
    fields: dict[str, Any] = {**HEADS, "attention_head_dim": 8, "in_channels": 4, "out_channels": 4}
    fields |= {"cross_attention_dim": 16, "caption_channels": 12}
    inputs = {"hidden_states": torch.randn(1, LATENT * frames, 4), "timestep": now()}
    inputs |= {"encoder_hidden_states": text(12), "encoder_attention_mask": ones()}
    return (
        "LTXVideoTransformer3DModel",
        fields,
        {**inputs, "num_frames": frames, "height": 4, "width": 4},
    )


def cogvideox(frames: int = 1) -> Made:
    fields: dict[str, Any] = {
        **HEADS,
        "attention_head_dim": 8,
        "in_channels": 4,
        "text_embed_dim": 12,
    }
    fields |= {"max_text_seq_length": PROMPT, "sample_height": SIDE, "sample_width": SIDE}
    inputs = {"hidden_states": torch.randn(1, frames, 4, SIDE, SIDE), "timestep": now()}
    return "CogVideoXTransformer3DModel", fields, {**inputs, "encoder_hidden_states": text(12)}


def lumina2() -> Made:
    fields: dict[str, Any] = {
        **HEADS,
        "num_kv_heads": 1,
        "hidden_size": 24,
        "num_refiner_layers": 1,
    }
    fields |= {"in_channels": 4, "axes_dim_rope": [4, 4, 4], "cap_feat_dim": 12, "multiple_of": 8}
    inputs = {"hidden_states": torch.randn(1, 4, SIDE, SIDE), "timestep": now()}
    inputs |= {"encoder_hidden_states": text(12), "encoder_attention_mask": ones()}
    return "Lumina2Transformer2DModel", fields, inputs


def z_image() -> Made:
    fields: dict[str, Any] = {
        "in_channels": 4,
        "dim": 32,
        "n_layers": 2,
        "n_refiner_layers": 1,
        "n_heads": 2,
    }
    fields |= {"n_kv_heads": 2, "cap_feat_dim": 12, "axes_dims": [4, 6, 6]}
    inputs = {
        "x": [torch.randn(4, 1, SIDE, SIDE)],
        "t": now(),
        "cap_feats": [torch.randn(PROMPT, 12)],
    }
    return "ZImageTransformer2DModel", fields, inputs


def unet() -> Made:
    """Its latent has no patches: each of its points is one."""
    fields: dict[str, Any] = {
        "sample_size": 32,
        "block_out_channels": (8, 16),
        "norm_num_groups": 4,
        "layers_per_block": 1,
        "attention_head_dim": 4,
        "cross_attention_dim": 12,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    inputs = {"sample": torch.randn(1, 4, SIDE // 2, SIDE // 2), "timestep": now()}
    return "UNet2DConditionModel", fields, {**inputs, "encoder_hidden_states": text(12)}


@pytest.mark.parametrize(
    ("made", "frames"),
    [
        (unet, 1),
        (pixart, 1),
        (hunyuan_video, 1),
        (hunyuan_video, 3),
        (ltx_video, 1),
        (ltx_video, 3),
        (cogvideox, 1),
        (cogvideox, 3),
        (lumina2, 1),
        (z_image, 1),
    ],
)
def test_a_denoiser_executes_without_weights_what_it_does_with_them(made: Any, frames: int) -> None:
    name, fields, inputs = made() if frames == 1 else made(frames)
    module = getattr(diffusers, name)(**fields)
    lengths = {"latent": LATENT * frames, "prompt": PROMPT, "frames": frames}
    found = from_config.executed_of({**fields, "_class_name": name}, lengths)
    assert found.forward_flops == real_forward(module, inputs)
    assert found.parameters == sum(each.numel() for each in module.parameters())
    assert sum(found.backward.values()) > found.forward_flops


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ({"prompt": 5}, "needs --length latent=N"),
        ({"latent": 16}, "needs --length prompt=N"),
        ({"latent": 15, "prompt": 5}, "latent=15 is not the square of a side"),
        ({"latent": 48, "prompt": 5, "frames": 5}, "the square of a side in each of 5 frames"),
        ({"latent": 0, "prompt": 5}, "latent=0 is not the square of a side"),
    ],
)
def test_lengths_that_make_no_frames_are_refused(lengths: dict[str, int], text: str) -> None:
    name, fields, _ = hunyuan_video()
    with pytest.raises(ConfigError) as caught:
        from_config.executed_of({**fields, "_class_name": name}, lengths)
    assert text in str(caught.value)
