"""Makes the inputs of one sample for a model of transformers, from the arguments that its forward pass takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.image_inputs import features_of, frames_of, pixels
from ofu_exporter.flops.trace.sample import (
    AUDIO,
    FRAMES,
    IMAGE,
    IMAGES,
    SOURCE,
    TARGET,
    TOKENS,
    ModuleSample,
    first,
    with_inner,
    zeros,
)
from ofu_exporter.flops.trace.sound_inputs import features, waveform

KINDS = {"image": "pixel_values", "video": "pixel_values_videos", "audio": "input_features"}
"""The inputs that tokens of a text may stand for, in the order of transformers' mm_token_type_ids."""
EMBEDDED = {
    "query_embeds": (TOKENS, "hidden_size"),
    "visual_feats": (IMAGE, "visual_feat_dim"),
    "visual_pos": (IMAGE, "visual_pos_dim"),
}
"""Vectors that a class takes as they are: the stream that says how many, and the field that says how wide."""


def inputs_of_transformer(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `tokens` of a text (images, videos and sounds in it included), or `source` and `target`; `images` that a
    text has, or `image` patches of one image where its size is free; `frames` of a video; `audio` samples or frames.
    Raises ConfigError, which names a stream that is missing.
    """
    sample = ModuleSample(module, lengths)
    names, inputs = sample.names, dict[str, Any]()
    if "input_features" in names and ("input_ids" not in names or AUDIO in lengths):
        inputs |= features(sample)
    if "input_values" in names and ("input_ids" not in names or sample.needs("input_values")):
        inputs |= waveform(sample)
    if {"pixel_values", "grid_thw"} & {*names} and (
        "input_ids" not in names or IMAGE in lengths or IMAGES in lengths
    ):
        inputs |= pixels(sample)
    if "pixel_values_videos" in names and ("pixel_values" not in names or FRAMES in lengths):
        inputs["pixel_values_videos"] = frames_of(sample)
    if "input_ids" in names:
        main = SOURCE if sample.config.is_encoder_decoder and SOURCE in lengths else TOKENS
        ids, kinds = _text(module, sample.length(main), inputs)
        inputs["input_ids"] = ids
        if "mm_token_type_ids" in names:
            inputs["mm_token_type_ids"] = kinds
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.full((1, sample.length(TARGET)), 3)
    wanted = names.keys() - inputs.keys()
    inputs |= {**dict(_vectors(sample, wanted)), **dict(_integers(sample, wanted))}
    if "use_cache" in names:
        inputs["use_cache"] = False
    return inputs


def _text(module: Any, length: int, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Ids of a text, and which of them stand for images: one for each feature that the model makes of them."""
    config = module.config
    special = {value for each in with_inner(config) for value in _token_ids(each)}
    plain = next(number for number in range(3, 10**6) if number not in special)
    ids, kinds = torch.full((1, length), plain, device="cpu"), torch.zeros(1, length, device="cpu")
    last = 1
    for place, (kind, name) in enumerate(KINDS.items()):
        token = first((f"{kind}_token_id", f"{kind}_token_index"), config)
        if name not in inputs or token is None:
            continue
        fixed = getattr(config, "audio_soft_tokens_per_image", None)
        number = fixed if kind == "audio" and fixed else features_of(module, inputs, kind)
        if last + number > length:
            needed = f"{kind} alone has {number} tokens; --seq-len {length} is not longer"
            raise ConfigError(f"executed: {needed}")
        ids[0, last : last + number] = token
        kinds[0, last : last + number] = place + 1
        last += number
    return ids, kinds.int()


def _token_ids(config: Any) -> Iterator[int]:
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index")) and value is not None:
            yield from value if isinstance(value, list) else [value]


def _vectors(sample: ModuleSample, wanted: set[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """What only a few classes take: queries, features of a detector, patches with their places, series of values."""
    config = sample.config
    for name, (stream, field) in EMBEDDED.items():
        if name in wanted:
            yield name, zeros(1, sample.length(stream), getattr(config, field))
    if "query_embeds" in wanted and "encoder_hidden_states" in wanted:
        shape = (1, sample.length(IMAGE), config.encoder_hidden_size)
        yield "encoder_hidden_states", zeros(*shape)
    if "flattened_patches" in wanted:  # row and column stand before the pixels
        width = sample.vision.patch_embed_hidden_size + 2
        yield "flattened_patches", zeros(1, sample.length(IMAGE), width)
    if "past_values" in wanted and hasattr(config, "num_input_channels"):
        yield "past_values", zeros(1, config.context_length, config.num_input_channels)


def _integers(sample: ModuleSample, wanted: set[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """What only a few classes take: texts beside the text, places of words on a page, the number of a language."""
    config = sample.config
    if "qformer_input_ids" in wanted:
        yield "qformer_input_ids", torch.full((1, sample.length(TOKENS)), 3, device="cpu")
    if "task_inputs" in wanted:
        yield "task_inputs", torch.full((1, config.task_seq_len), 3, device="cpu")
    if "token_type_ids" in wanted and any(_reads_both_ways(each) for each in with_inner(config)):
        yield (
            "token_type_ids",
            torch.zeros((1, sample.length(TOKENS)), dtype=torch.long, device="cpu"),
        )
    if "bbox" in wanted:
        shape = (1, sample.length(TOKENS), 4)
        yield "bbox", torch.zeros(shape, dtype=torch.long, device="cpu")
    if "image_embeds_position_mask" in wanted:
        # The first tokens of Kosmos-2's text are the image's.
        places = torch.arange(sample.length(TOKENS), device="cpu") < config.latent_query_num
        yield "image_embeds_position_mask", places[None]
    if "lang_ids" in wanted and hasattr(config, "languages"):
        yield "lang_ids", torch.zeros(1, dtype=torch.long, device="cpu")


def _reads_both_ways(config: Any) -> bool:
    """Whether the tokens of a prompt see each other, as PaliGemma's do where their type is given."""
    return bool(getattr(config, "use_bidirectional_attention", False))
