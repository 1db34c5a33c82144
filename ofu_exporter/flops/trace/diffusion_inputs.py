"""Makes the inputs of one sample for a denoiser of diffusers, from the arguments that its forward pass takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from math import isqrt
from typing import Any

import torch

from ofu_exporter.errors import ConfigError

LATENT, PROMPT, FRAMES = "latent", "prompt", "frames"


def inputs_of_diffusion(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `latent` are the tokens that are denoised, after patching, as a square or as squares of `frames`;
    `prompt` are the text's. Raises ConfigError, which names a stream that is missing.
    """
    names, config = inspect.signature(module.forward).parameters, module.config
    if "cap_feats" in names:
        return _listed(config, lengths)
    inputs: dict[str, Any] = {"timestep": torch.ones(1, device="meta")}
    latent = "hidden_states" if "hidden_states" in names else "sample"
    inputs[latent] = _latent(module, names, lengths)
    if "encoder_hidden_states" in names and _width(config) is not None:
        shape = (1, _length(lengths, PROMPT), _width(config))
        inputs["encoder_hidden_states"] = torch.zeros(shape, device="meta")
        mask = names.get("encoder_attention_mask")
        if mask is not None and mask.default is inspect.Parameter.empty:
            inputs["encoder_attention_mask"] = _ones(_length(lengths, PROMPT))
    inputs |= _conditions(module, names, lengths)
    return inputs


def _listed(config: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """A list of one latent and a list of one prompt (Z-Image)."""
    patch, depth = config["all_patch_size"][0], config["all_f_patch_size"][0]
    frames, side = _frames(lengths), _side(lengths)
    shape = (config["in_channels"], frames * depth, side * patch, side * patch)
    return {
        "x": [torch.zeros(shape, device="meta")],
        "t": torch.ones(1, device="meta"),
        "cap_feats": [torch.zeros(_length(lengths, PROMPT), config["cap_feat_dim"], device="meta")],
        "patch_size": patch,
        "f_patch_size": depth,
    }


def _ones(length: int) -> Any:
    return torch.ones(1, length, dtype=torch.long, device="cpu")


def _length(lengths: Mapping[str, int], stream: str) -> int:
    if stream not in lengths:
        raise ConfigError(f"executed: the model needs --length {stream}=N")
    return lengths[stream]


def _width(config: Any) -> int | None:
    """The width of a prompt's embedding, under the name that the class has for it."""
    for name in (
        "joint_attention_dim",
        "caption_channels",
        "cross_attention_dim",
        "text_dim",
        "text_embed_dim",
        "cap_feat_dim",
    ):
        if config.get(name):
            return int(config[name])
    return None


def _latent(module: Any, names: Any, lengths: Mapping[str, int]) -> Any:
    """Packed tokens where the model wants them, else an image or a video."""
    config = module.config
    channels = config.get("in_channels") or config.get("num_channels_latents")
    if {"img_ids", "img_shapes", "num_frames"} & {*names}:
        return torch.zeros(1, _length(lengths, LATENT), channels, device="meta")
    depth, patch = _patch(config)
    side = _side(lengths) * patch if LATENT in lengths else config.get("sample_size")
    if not side:
        raise ConfigError("executed: the model needs --length latent=N")
    if depth is None:
        return torch.zeros(1, channels, side, side, device="meta")
    frames = _frames(lengths) * depth
    before = (frames, channels) if "sample_frames" in config else (channels, frames)
    return torch.zeros(1, *before, side, side, device="meta")


def _patch(config: Any) -> tuple[int | None, int]:
    """The frames of a patch, which an image's has none of, and its side."""
    patch: Any = config.get("patch_size") or 1
    if isinstance(patch, list | tuple):
        return int(patch[0]), int(patch[-1])
    if "patch_size_t" in config:
        return int(config["patch_size_t"] or 1), int(patch)
    return None, int(patch)


def _frames(lengths: Mapping[str, int]) -> int:
    return lengths.get(FRAMES, 1)


def _side(lengths: Mapping[str, int]) -> int:
    """The patches to a side of a frame, which is a square."""
    tokens, frames = _length(lengths, LATENT), _frames(lengths)
    side = isqrt(tokens // frames)
    if side**2 * frames != tokens or not tokens:
        of_frames = f" in each of {frames} frames" if FRAMES in lengths else ""
        raise ConfigError(f"executed: latent={tokens} is not the square of a side{of_frames}")
    return side


def _conditions(module: Any, names: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs besides latent and prompt: pooled texts, guidance, positions, classes."""
    config = module.config
    made = _sizes(names, config, lengths)
    if "pooled_projections" in names:
        made["pooled_projections"] = torch.zeros(1, config["pooled_projection_dim"], device="meta")
    if config.get("guidance_embeds"):
        made["guidance"] = torch.ones(1, device="meta")
    if "class_labels" in names and config.get("num_embeds_ada_norm"):
        made["class_labels"] = torch.zeros(1, dtype=torch.long, device="cpu")
    if "added_cond_kwargs" in names:
        made["added_cond_kwargs"] = _added(module)
    return made


def _sizes(names: Any, config: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """Where the tokens of a packed latent and of a prompt stand."""
    made: dict[str, Any] = {}
    if "num_frames" in names:
        made |= dict.fromkeys(("height", "width"), _side(lengths))
        made["num_frames"] = _frames(lengths)
    if "img_ids" in names:
        axes = len(config.get("axes_dims_rope", (1, 1, 1)))
        made["img_ids"] = torch.zeros(lengths[LATENT], axes, device="meta")
        made["txt_ids"] = torch.zeros(lengths[PROMPT], axes, device="meta")
    if "img_shapes" in names:
        side = _side(lengths)
        made["img_shapes"] = [[(_frames(lengths), side, side)]]
        made["encoder_hidden_states_mask"] = _ones(lengths[PROMPT])
    return made


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
    return {
        "text_embeds": torch.zeros(1, text, device="meta"),
        "time_ids": torch.ones(1, 6, device="meta"),
    }
