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
    features_of,
    length,
    pixels,
    video,
)

TOKENS, SOURCE, TARGET, AUDIO = "tokens", "source", "target", "audio"
BINS = ("num_mel_bins", "feature_size", "input_size", "input_feat_size")
"""Fields that say the width of a spectrogram."""
KINDS = ("image", "video", "audio")
"""The inputs that tokens of a text may stand for, in the order of transformers' mm_token_type_ids."""


def inputs_of_transformer(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `tokens` of a text (images, videos and sounds in it included), or `source` and `target`; `images` that a
    text has, or `image` patches of one image where its size is free; `frames` of a video; `audio` samples or frames.
    Raises ConfigError, which names a stream that is missing.
    """
    names, config = inspect.signature(module.forward).parameters, module.config
    given = dict(lengths)
    inputs: dict[str, Any] = {}
    if "input_features" in names and ("input_ids" not in names or AUDIO in given):
        inputs |= _features(module, given)
    if "input_values" in names and "input_ids" not in names:
        inputs["input_values"] = torch.zeros(1, length(given, AUDIO), device="meta")
    if "pixel_values" in names and ("input_ids" not in names or IMAGE in given or IMAGES in given):
        inputs |= pixels(module, given)
    if "pixel_values_videos" in names and FRAMES in given:
        inputs |= video(module, given)
    if "input_ids" in names:
        main = SOURCE if config.is_encoder_decoder and SOURCE in given else TOKENS
        ids, images = _text(module, length(given, main), inputs)
        inputs["input_ids"] = ids
        if "mm_token_type_ids" in names:
            inputs["mm_token_type_ids"] = images
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.full((1, length(given, TARGET)), 3)
    if "use_cache" in names:
        inputs["use_cache"] = False
    return inputs


def _features(module: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """A spectrogram with the number of frames from the configuration or the user."""
    config = getattr(module.config, "audio_config", None) or module.config
    bins = next(filter(None, (getattr(config, name, None) for name in BINS)), None)
    if bins is None and hasattr(config, "subsampling_conv_channels"):
        bins = config.subsampling_conv_channels[0]  # Gemma 4
    if bins is None:
        raise ConfigError("executed: the configuration does not have the width of its spectrogram")
    frames = 2 * getattr(config, "max_source_positions", 0) or length(given, AUDIO)
    layout = (1, bins, frames) if hasattr(config, "max_source_positions") else (1, frames, bins)
    features = {"input_features": torch.zeros(layout, device="meta")}
    if "input_features_mask" in inspect.signature(module.forward).parameters:
        features["input_features_mask"] = torch.ones(1, frames, dtype=torch.bool, device="cpu")
    return features


def _text(module: Any, length: int, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Ids of a text, and which of them stand for images: one for each feature that the model makes of them."""
    config = module.config
    special = {value for each in _with_inner(config) for value in _token_ids(each)}
    plain = next(number for number in range(3, 10**6) if number not in special)
    ids, images = torch.full((1, length), plain, device="cpu"), torch.zeros(1, length, device="cpu")
    last = 1
    for kind, number in _soft_tokens(module, inputs):
        named = (getattr(config, f"{kind}_token_{name}", None) for name in ("id", "index"))
        token = next(filter(None, named), None)
        if token is None:
            continue
        if last + number > length:
            raise ConfigError(
                f"executed: {kind} alone has {number} tokens; --seq-len {length} is not longer"
            )
        ids[0, last : last + number] = token
        images[0, last : last + number] = KINDS.index(kind) + 1
        last += number
    return ids, images.int()


def _soft_tokens(module: Any, inputs: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """How many tokens of the text stand for images, videos and sounds: one for each feature that the model makes of
    them."""
    for kind, given in zip(
        KINDS, ("pixel_values", "pixel_values_videos", "input_features"), strict=True
    ):
        if given in inputs:
            fixed = getattr(module.config, "audio_soft_tokens_per_image", None)
            number = fixed if kind == "audio" and fixed else features_of(module, inputs, kind)
            yield kind, number


def _with_inner(config: Any) -> Iterator[Any]:
    yield config
    for name in getattr(config, "sub_configs", {}):
        if getattr(config, name, None) is not None:
            yield getattr(config, name)


def _token_ids(config: Any) -> Iterator[int]:
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index")):
            yield from (
                each for each in (value if isinstance(value, list) else [value]) if each is not None
            )
