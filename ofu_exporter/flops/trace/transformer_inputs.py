"""Makes the inputs of one sample for a model of transformers, from the arguments that its forward pass takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.image_inputs import IMAGE, IMAGES, image_tokens, length, pixels

TOKENS, SOURCE, TARGET, AUDIO = "tokens", "source", "target", "audio"


def inputs_of_transformer(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `tokens` of a text (images in it included), or `source` and `target`; `images` that a text has, or
    `image` patches of one image where its size is free; `audio` samples or frames. Raises ConfigError, which names
    a stream that is missing.
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
    """A spectrogram of as many frames as the configuration or the user says."""
    config = getattr(module.config, "audio_config", None) or module.config
    sizes = [getattr(config, name, None) for name in ("num_mel_bins", "feature_size", "input_size")]
    bins = next(filter(None, sizes), None)
    if bins is None:
        raise ConfigError("executed: the configuration says no width of its spectrogram")
    frames = 2 * getattr(config, "max_source_positions", 0) or length(given, AUDIO)
    layout = (1, bins, frames) if hasattr(config, "max_source_positions") else (1, frames, bins)
    return {"input_features": torch.zeros(layout, device="meta")}


def _text(module: Any, length: int, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Ids of a text, and which of them are images': as many as the model makes features of them."""
    config = module.config
    special = {value for each in _with_inner(config) for value in _token_ids(each)}
    plain = next(number for number in range(3, 10**6) if number not in special)
    ids, images = torch.full((1, length), plain, device="cpu"), torch.zeros(1, length, device="cpu")
    named = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    token = next(filter(None, named), None)
    if "pixel_values" in inputs and token is not None:
        number = image_tokens(module, inputs)
        if number >= length:
            raise ConfigError(
                f"executed: an image alone has {number} tokens; --seq-len {length} is not longer"
            )
        ids[0, 1 : number + 1] = token
        images[0, 1 : number + 1] = 1
    return ids, images.int()


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
