"""Makes the inputs of one sample for a denoiser of diffusers, from the arguments that its forward pass takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from math import isqrt
from typing import Any

import torch

from ofu_exporter.errors import ConfigError

LATENT, PROMPT = "latent", "prompt"


def inputs_of_diffusion(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `latent` are the tokens that are denoised, after patching, as a square; `prompt` are the text's.
    Raises ConfigError, which names a stream that is missing.
    """
    names, config = inspect.signature(module.forward).parameters, module.config
    inputs: dict[str, Any] = {"timestep": torch.ones(1, device="meta")}
    latent = "hidden_states" if "hidden_states" in names else "sample"
    inputs[latent] = _latent(module, names, lengths)
    if "encoder_hidden_states" in names and _width(config) is not None:
        shape = (1, _length(lengths, PROMPT), _width(config))
        inputs["encoder_hidden_states"] = torch.zeros(shape, device="meta")
    inputs |= _conditions(names, config, lengths)
    return inputs


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
    ):
        if config.get(name):
            return int(config[name])
    return None


def _latent(module: Any, names: Any, lengths: Mapping[str, int]) -> Any:
    """Packed tokens if the model takes them, otherwise an image or a video of one frame."""
    config = module.config
    channels = config.get("in_channels") or config.get("num_channels_latents")
    if "img_ids" in names or "img_shapes" in names:
        return torch.zeros(1, _length(lengths, LATENT), channels, device="meta")
    patch: Any = config.get("patch_size") or 1
    video = isinstance(patch, list | tuple)
    height = int(patch[-1] if video else patch)
    side = _side(lengths.get(LATENT)) * height if LATENT in lengths else config.get("sample_size")
    if not side:
        raise ConfigError("executed: the model needs --length latent=N")
    frames = (patch[0],) if video else ()
    return torch.zeros(1, channels, *frames, side, side, device="meta")


def _side(tokens: int | None) -> int:
    side = isqrt(tokens or 0)
    if side**2 != tokens:
        raise ConfigError(f"executed: latent={tokens} is not the square of a side")
    return side


def _conditions(names: Any, config: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs besides latent and prompt: pooled texts, guidance, positions, classes."""
    made: dict[str, Any] = {}
    if "pooled_projections" in names:
        made["pooled_projections"] = torch.zeros(1, config["pooled_projection_dim"], device="meta")
    if config.get("guidance_embeds"):
        made["guidance"] = torch.ones(1, device="meta")
    if "img_ids" in names:
        axes = len(config.get("axes_dims_rope", (1, 1, 1)))
        made["img_ids"] = torch.zeros(lengths[LATENT], axes, device="meta")
        made["txt_ids"] = torch.zeros(lengths[PROMPT], axes, device="meta")
    if "img_shapes" in names:
        side = _side(lengths[LATENT])
        made["img_shapes"] = [[(1, side, side)]]
        made["encoder_hidden_states_mask"] = torch.ones(
            1, lengths[PROMPT], dtype=torch.long, device="cpu"
        )
    if "class_labels" in names and config.get("num_embeds_ada_norm"):
        made["class_labels"] = torch.zeros(1, dtype=torch.long, device="cpu")
    if "added_cond_kwargs" in names:
        made["added_cond_kwargs"] = _added(config)
    return made


def _added(config: Any) -> dict[str, Any]:
    """SDXL's sizes and pooled text: six numbers, each with its own embedding, and the text."""
    if config.get("addition_embed_type") != "text_time":
        return {}
    text = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
    return {
        "text_embeds": torch.zeros(1, text, device="meta"),
        "time_ids": torch.ones(1, 6, device="meta"),
    }
