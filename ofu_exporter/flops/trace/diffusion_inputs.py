"""Makes the inputs of one sample for a denoiser of diffusers, from the arguments that its forward pass takes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.sample import ModuleSample, first, ones, zeros

TEXT_WIDTHS = ("text_dim", "text_embed_dim", "cap_feat_dim")
WIDTHS = ("joint_attention_dim", "caption_channels", "cross_attention_dim", *TEXT_WIDTHS)
"""The fields that classes have for the width of a prompt's embedding."""


def inputs_of_diffusion(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `latent` are the tokens that are denoised, after patching, as a square or as squares of `frames`;
    `prompt` are the text's. Raises ConfigError, which names a stream that is missing.
    """
    sample = ModuleSample(module, lengths)
    names, config = sample.names, sample.config
    if "cap_feats" in names:
        return _listed(sample)
    inputs: dict[str, Any] = {"timestep": torch.ones(1, device="meta")}
    inputs["hidden_states" if "hidden_states" in names else "sample"] = _latent(sample)
    width = first(WIDTHS, config)
    if "encoder_hidden_states" in names and width is not None:
        inputs["encoder_hidden_states"] = zeros(1, sample.length("prompt"), int(width))
        if sample.needs("encoder_attention_mask"):
            inputs["encoder_attention_mask"] = ones(1, sample.length("prompt"))
    inputs |= _places(sample)
    if "pooled_projections" in names:
        inputs["pooled_projections"] = zeros(1, config["pooled_projection_dim"])
    if config.get("guidance_embeds"):
        inputs["guidance"] = torch.ones(1, device="meta")
    if "class_labels" in names and config.get("num_embeds_ada_norm"):
        inputs["class_labels"] = torch.zeros(1, dtype=torch.long, device="cpu")
    if "added_cond_kwargs" in names:
        inputs["added_cond_kwargs"] = _added(module)
    return inputs


def _listed(sample: ModuleSample) -> dict[str, Any]:
    """A list of one latent and a list of one prompt (Z-Image)."""
    config = sample.config
    patch, depth = config["all_patch_size"][0], config["all_f_patch_size"][0]
    frames, side = sample.frames, _side(sample)
    return {
        "x": [zeros(config["in_channels"], frames * depth, side * patch, side * patch)],
        "t": torch.ones(1, device="meta"),
        "cap_feats": [zeros(sample.length("prompt"), config["cap_feat_dim"])],
        "patch_size": patch,
        "f_patch_size": depth,
    }


def _latent(sample: ModuleSample) -> Any:
    """Packed tokens where the model wants them, else an image or a video."""
    config = sample.config
    channels = first(("in_channels", "num_channels_latents"), config)
    if {"img_ids", "img_shapes", "num_frames"} & {*sample.names}:
        return zeros(1, sample.length("latent"), channels)
    depth, patch = _patch(config)
    side = _side(sample) * patch if "latent" in sample.lengths else config.get("sample_size")
    if not side:
        raise ConfigError("executed: the model needs --length latent=N")
    if depth is None:
        return zeros(1, channels, side, side)
    frames = sample.frames * depth
    before = (frames, channels) if "sample_frames" in config else (channels, frames)
    return zeros(1, *before, side, side)


def _patch(config: Any) -> tuple[int | None, int]:
    """The frames of a patch, which an image's has none of, and its side."""
    patch: Any = config.get("patch_size") or 1
    if isinstance(patch, list | tuple):
        return int(patch[0]), int(patch[-1])
    if "patch_size_t" in config:
        return int(config["patch_size_t"] or 1), int(patch)
    return None, int(patch)


def _side(sample: ModuleSample) -> int:
    """The patches to a side of a frame, which is a square."""
    tokens, frames = sample.length("latent"), sample.frames
    side = isqrt(tokens // frames)
    if side**2 * frames != tokens or not tokens:
        of_frames = f" in each of {frames} frames" if "frames" in sample.lengths else ""
        raise ConfigError(f"executed: latent={tokens} is not the square of a side{of_frames}")
    return side


def _places(sample: ModuleSample) -> dict[str, Any]:
    """Where the tokens of a packed latent and of a prompt stand."""
    names, inputs = sample.names, dict[str, Any]()
    if "num_frames" in names:
        inputs |= dict.fromkeys(("height", "width"), _side(sample))
        inputs["num_frames"] = sample.frames
    if "img_ids" in names:
        axes = len(sample.config.get("axes_dims_rope", (1, 1, 1)))
        inputs["img_ids"] = zeros(sample.length("latent"), axes)
        inputs["txt_ids"] = zeros(sample.length("prompt"), axes)
    if "img_shapes" in names:
        side = _side(sample)
        inputs["img_shapes"] = [[(sample.frames, side, side)]]
        inputs["encoder_hidden_states_mask"] = ones(1, sample.length("prompt"))
    return inputs


def _added(module: Any) -> dict[str, Any]:
    """PixArt's resolution, or SDXL's pooled text and six sizes, each embedded at its own width."""
    config = module.config
    if getattr(module, "use_additional_conditions", False):
        return {
            "resolution": torch.ones(1, 2, device="meta"),
            "aspect_ratio": torch.ones(1, 1, device="meta"),
        }
    if config.get("addition_embed_type") != "text_time":
        return {}
    text = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
    return {"text_embeds": zeros(1, text), "time_ids": torch.ones(1, 6, device="meta")}
