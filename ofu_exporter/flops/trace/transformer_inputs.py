"""Makes the inputs of one sample for a model of transformers, from the arguments that its forward pass takes.

Texts, sounds and what only a few classes take; images and videos are in `image_inputs`. A sound is a spectrogram, or
samples of one or more channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.trace.image_inputs import features_of, frames_of, pixels
from ofu_exporter.flops.trace.sample import ModuleSample, Stream, first, ones, with_inner, zeros

KINDS = {"image": "pixel_values", "video": "pixel_values_videos", "audio": "input_features"}
"""The inputs that tokens of a text may stand for, in the order of transformers' mm_token_type_ids."""
EMBEDDED: dict[str, tuple[Stream, str]] = {
    "query_embeds": ("tokens", "hidden_size"),
    "visual_feats": ("image", "visual_feat_dim"),
    "visual_pos": ("image", "visual_pos_dim"),
}
"""Vectors that a class takes as they are: the stream that says how many, and the field that says how wide."""

BINS = ("input_size", "num_mel_bins", "feature_size", "input_feat_size", "input_feat_per_channel")
"""Fields that say the width of a spectrogram."""
OF_A_CODEC = ("audio_channels", "hop_length")
"""Fields of codecs, whose sounds have channels."""


def inputs_of_transformer(module: Any, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The inputs of one sample.

    Streams: `tokens` of a text (images, videos and sounds in it included), or `source` and `target`; `images` that a
    text has, or `image` patches of one image where its size is free; `frames` of a video; `audio` samples or frames.
    Raises ConfigError, which names a stream that is missing.
    """
    sample = ModuleSample(module, lengths)
    names, inputs = sample.names, dict[str, Any]()
    if "input_features" in names and ("input_ids" not in names or "audio" in lengths):
        inputs |= _features(sample)
    if "input_values" in names and ("input_ids" not in names or sample.needs("input_values")):
        inputs |= _waveform(sample)
    if {"pixel_values", "grid_thw"} & {*names} and (
        "input_ids" not in names or "image" in lengths or "images" in lengths
    ):
        inputs |= pixels(sample)
    if "pixel_values_videos" in names and ("pixel_values" not in names or "frames" in lengths):
        inputs["pixel_values_videos"] = frames_of(sample)
    if "input_ids" in names:
        main: Stream = (
            "source" if sample.config.is_encoder_decoder and "source" in lengths else "tokens"
        )
        ids, kinds = _text(module, sample.length(main), inputs)
        inputs["input_ids"] = ids
        if "mm_token_type_ids" in names:
            inputs["mm_token_type_ids"] = kinds
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = torch.full((1, sample.length("target")), 3)
    wanted = names.keys() - inputs.keys()
    inputs |= {**dict(_vectors(sample, wanted)), **dict(_integers(sample, wanted))}
    if "use_cache" in names:
        inputs["use_cache"] = False
    return inputs


def _features(sample: ModuleSample) -> dict[str, Any]:
    """A spectrogram of as many frames as the configuration or the user says."""
    config, bins = _bins(sample.config)
    frames = 2 * getattr(config, "max_source_positions", 0) or sample.length("audio")
    shape: tuple[int, ...] = (1, frames, bins)
    if _bins_first(sample.module, config, bins):
        shape = (1, bins, frames)
    elif hasattr(config, "spec_size"):
        # CLAP's spectrogram has a channel, and is as long as makes it a square.
        shape = (1, 1, config.spec_size**2 // bins, bins)
    masks = {"input_features_mask": torch.bool, "feature_attention_mask": torch.long}
    return {
        "input_features": zeros(*shape),
        **{name: ones(1, frames).to(of) for name, of in masks.items() if name in sample.names},
    }


def _waveform(sample: ModuleSample) -> dict[str, Any]:
    """Samples of a sound: in channels for a codec, else without; a spectrogram where it is cut into patches."""
    config = sample.config
    if hasattr(config, "frequency_stride"):  # the Audio Spectrogram Transformer's
        shape: tuple[int, ...] = (1, config.max_length, config.num_mel_bins)
    elif any(hasattr(each, name) for each in with_inner(config) for name in OF_A_CODEC):
        shape = (1, getattr(config, "audio_channels", 1), sample.length("audio"))
    else:
        shape = (1, sample.length("audio"))
    return {"input_values": zeros(*shape)}


def _bins(config: Any) -> tuple[Any, int]:
    """The configuration that says the width of the spectrogram, and the width."""
    for each in filter(None, (getattr(config, "audio_config", None), *with_inner(config))):
        if bins := first(BINS, each):
            return each, int(bins)
        if hasattr(each, "subsampling_conv_channels"):  # Gemma 4
            return each, int(each.subsampling_conv_channels[0])
    raise ConfigError("executed: the configuration says no width of its spectrogram")


def _bins_first(module: Any, config: Any, bins: int) -> bool:
    """Whether the bins come before the frames: where the first convolution over time reads them as channels."""
    if hasattr(config, "input_feat_per_channel"):  # Speech2Text turns its spectrogram itself
        return False
    if hasattr(config, "max_source_positions") or hasattr(config, "n_window"):
        return True
    over_time = (each for each in module.modules() if isinstance(each, torch.nn.Conv1d))
    convolution = next(over_time, None)
    return convolution is not None and convolution.in_channels == bins


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
        shape = (1, sample.length("image"), config.encoder_hidden_size)
        yield "encoder_hidden_states", zeros(*shape)
    if "flattened_patches" in wanted:  # row and column stand before the pixels
        width = sample.vision.patch_embed_hidden_size + 2
        yield "flattened_patches", zeros(1, sample.length("image"), width)
    if "past_values" in wanted and hasattr(config, "num_input_channels"):
        yield "past_values", zeros(1, config.context_length, config.num_input_channels)


def _integers(sample: ModuleSample, wanted: set[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """What only a few classes take: texts beside the text, places of words on a page, the number of a language."""
    config = sample.config
    if "qformer_input_ids" in wanted:
        yield "qformer_input_ids", torch.full((1, sample.length("tokens")), 3, device="cpu")
    if "task_inputs" in wanted:
        yield "task_inputs", torch.full((1, config.task_seq_len), 3, device="cpu")
    if "token_type_ids" in wanted and any(_reads_both_ways(each) for each in with_inner(config)):
        yield (
            "token_type_ids",
            torch.zeros((1, sample.length("tokens")), dtype=torch.long, device="cpu"),
        )
    if "bbox" in wanted:
        shape = (1, sample.length("tokens"), 4)
        yield "bbox", torch.zeros(shape, dtype=torch.long, device="cpu")
    if "image_embeds_position_mask" in wanted:
        # The first tokens of Kosmos-2's text are the image's.
        places = torch.arange(sample.length("tokens"), device="cpu") < config.latent_query_num
        yield "image_embeds_position_mask", places[None]
    if "lang_ids" in wanted and hasattr(config, "languages"):
        yield "lang_ids", torch.zeros(1, dtype=torch.long, device="cpu")


def _reads_both_ways(config: Any) -> bool:
    """Whether the tokens of a prompt see each other, as PaliGemma's do where their type is given."""
    return bool(getattr(config, "use_bidirectional_attention", False))
