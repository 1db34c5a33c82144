"""Makes the inputs of one sample for a model of transformers, from the arguments that its forward pass takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError

TOKENS, IMAGE, IMAGES, SOURCE, TARGET, AUDIO = (
    "tokens",
    "image",
    "images",
    "source",
    "target",
    "audio",
)


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
        inputs["input_values"] = torch.zeros(1, _length(given, AUDIO), device="meta")
    if "pixel_values" in names and ("input_ids" not in names or IMAGE in given or IMAGES in given):
        inputs |= _pixels(module, names, given)
    if "input_ids" in names:
        main = SOURCE if config.is_encoder_decoder and SOURCE in given else TOKENS
        ids, images = _text(module, _length(given, main), inputs)
        inputs["input_ids"] = ids
        if "mm_token_type_ids" in names:
            inputs["mm_token_type_ids"] = images
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.full((1, _length(given, TARGET)), 3)
    if "use_cache" in names:
        inputs["use_cache"] = False
    return inputs


def _length(given: Mapping[str, int], stream: str) -> int:
    if stream not in given:
        option = "--seq-len N" if stream == TOKENS else f"--length {stream}=N"
        raise ConfigError(f"executed: the model needs {option}")
    return given[stream]


def _features(module: Any, given: Mapping[str, int]) -> dict[str, Any]:
    """A spectrogram of as many frames as the configuration or the user says."""
    config = getattr(module.config, "audio_config", None) or module.config
    sizes = [getattr(config, name, None) for name in ("num_mel_bins", "feature_size", "input_size")]
    bins = next(filter(None, sizes), None)
    if bins is None:
        raise ConfigError("executed: the configuration says no width of its spectrogram")
    frames = 2 * getattr(config, "max_source_positions", 0) or _length(given, AUDIO)
    layout = (1, bins, frames) if hasattr(config, "max_source_positions") else (1, frames, bins)
    return {"input_features": torch.zeros(layout, device="meta")}


def _pixels(module: Any, names: Any, given: Mapping[str, int]) -> dict[str, Any]:
    vision = getattr(module.config, "vision_config", None) or module.config
    if "image_grid_thw" in names or "grid_thw" in names:
        return _patches(vision, _length(given, IMAGE), "image_grid_thw" in names)
    number, channels = given.get(IMAGES, 1), getattr(vision, "num_channels", 3)
    size = getattr(vision, "image_size", None) or getattr(module.config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    inside = ("pixel_attention_mask",) if "pixel_attention_mask" in names else ()
    layout = (1, number) if inside else (number,)
    return {"pixel_values": torch.zeros(*layout, channels, height, width, device="meta")}


def _patches(vision: Any, patches: int, named: bool) -> dict[str, Any]:
    """The patches of one image, nearly square, whose sides are whole merged patches."""
    merge = getattr(vision, "spatial_merge_size", 1)
    units, rest = divmod(patches, merge**2)
    if rest or not units:
        raise ConfigError(
            f"executed: image={patches} is not a number of whole {merge}x{merge} patches"
        )
    rows = max(side for side in range(1, int(units**0.5) + 1) if units % side == 0)
    grid = torch.tensor([[1, rows * merge, units // rows * merge]], device="cpu")
    channels: Any = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", 3)
    width = channels * getattr(vision, "temporal_patch_size", 1) * vision.patch_size**2
    name = "image_grid_thw" if named else "grid_thw"
    return {"pixel_values": torch.zeros(patches, width, device="meta"), name: grid}


def _text(module: Any, length: int, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Ids of a text, and which of them are images': as many as the model makes features of them."""
    config = module.config
    special = {value for each in _with_inner(config) for value in _token_ids(each)}
    plain = next(number for number in range(3, 10**6) if number not in special)
    ids, images = torch.full((1, length), plain, device="cpu"), torch.zeros(1, length, device="cpu")
    named = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    token = next(filter(None, named), None)
    if "pixel_values" in inputs and token is not None:
        number = _image_tokens(module, inputs)
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


def _image_tokens(module: Any, inputs: Mapping[str, Any]) -> int:
    """How many features the model makes of its images, by running the part that makes them."""
    maker = getattr(module, "get_image_features", None) or module.model.get_image_features
    wanted = inspect.signature(maker).parameters
    found = maker(**{name: value for name, value in inputs.items() if name in wanted})
    found = getattr(found, "pooler_output", found)
    parts = found if isinstance(found, list | tuple) else [found]
    return sum(part.numel() // part.shape[-1] for part in parts)
