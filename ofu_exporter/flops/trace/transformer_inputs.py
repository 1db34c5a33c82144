"""Makes the inputs of one sample for a model of transformers, from the arguments that its forward pass takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.image_inputs import (
    FRAMES,
    IMAGE,
    IMAGES,
    TOKENS,
    features_of,
    length,
    pixels,
    video,
)
from ofu_exporter.flops.trace.other_inputs import others
from ofu_exporter.flops.trace.sound_inputs import AUDIO, features, waveform, with_inner

SOURCE, TARGET = "source", "target"
KINDS = ("image", "video", "audio")
"""The inputs that tokens of a text may stand for, in the order of transformers' mm_token_type_ids."""


def inputs_of_transformer(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `tokens` of a text (images, videos and sounds in it included), or `source` and `target`; `images` that a
    text has, or `image` patches of one image where its size is free; `frames` of a video; `audio` samples or frames.
    Raises ConfigError, which names a stream that is missing.
    """
    names, config = inspect.signature(module.forward).parameters, module.config
    given = lengths
    inputs: dict[str, Any] = {}
    if "input_features" in names and ("input_ids" not in names or AUDIO in given):
        inputs |= features(module, given)
    if "input_values" in names and ("input_ids" not in names or _needed(names, "input_values")):
        inputs |= waveform(module, given)
    if {"pixel_values", "grid_thw"} & {*names} and (
        "input_ids" not in names or IMAGE in given or IMAGES in given
    ):
        inputs |= pixels(module, given)
    if "pixel_values_videos" in names and ("pixel_values" not in names or FRAMES in given):
        inputs |= video(module, given)
    if "input_ids" in names:
        main = SOURCE if config.is_encoder_decoder and SOURCE in given else TOKENS
        ids, images = _text(module, length(given, main), inputs)
        inputs["input_ids"] = ids
        if "mm_token_type_ids" in names:
            inputs["mm_token_type_ids"] = images
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.full((1, length(given, TARGET)), 3)
    inputs |= others(names, config, given, inputs)
    if "use_cache" in names:
        inputs["use_cache"] = False
    return inputs


def _needed(names: Mapping[str, Any], name: str) -> bool:
    return names[name].default is inspect.Parameter.empty


def _text(module: Any, length: int, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Ids of a text, and which of them stand for images: one for each feature that the model makes of them."""
    config = module.config
    special = {value for each in with_inner(config) for value in _token_ids(each)}
    plain = next(number for number in range(3, 10**6) if number not in special)
    ids, images = torch.full((1, length), plain, device="cpu"), torch.zeros(1, length, device="cpu")
    last = 1
    for kind, token in _special_tokens(config, inputs):
        fixed = getattr(config, "audio_soft_tokens_per_image", None)
        number = fixed if kind == "audio" and fixed else features_of(module, inputs, kind)
        if last + number > length:
            raise ConfigError(
                f"executed: {kind} alone has {number} tokens; --seq-len {length} is not longer"
            )
        ids[0, last : last + number] = token
        images[0, last : last + number] = KINDS.index(kind) + 1
        last += number
    return ids, images.int()


def _special_tokens(config: Any, inputs: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The tokens of a text that stand for an image, a video or a sound, where there is one."""
    for kind, given in zip(
        KINDS, ("pixel_values", "pixel_values_videos", "input_features"), strict=True
    ):
        named = (getattr(config, f"{kind}_token_{name}", None) for name in ("id", "index"))
        token = next(filter(None, named), None)
        if given in inputs and token is not None:
            yield kind, token


def _token_ids(config: Any) -> Iterator[int]:
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index")):
            yield from (
                each for each in (value if isinstance(value, list) else [value]) if each is not None
            )
