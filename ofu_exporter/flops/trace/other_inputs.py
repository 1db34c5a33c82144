"""Makes the inputs that only a few classes of transformers take, found by the name of the argument."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ofu_exporter.flops.trace.image_inputs import IMAGE, TOKENS, length

EMBEDDED = {
    "query_embeds": (TOKENS, "hidden_size"),
    "visual_feats": (IMAGE, "visual_feat_dim"),
    "visual_pos": (IMAGE, "visual_pos_dim"),
}
"""Vectors that a class takes as they are: the stream that says how many, and the field that says how wide."""


def others(
    names: Mapping[str, Any], config: Any, given: Mapping[str, int], made: Mapping[str, Any]
) -> dict[str, Any]:
    """What a class takes beside the ids, images and sounds that are made already."""
    wanted = {name for name in names if name not in made}
    return {
        **dict(_vectors(wanted, config, given)),
        **dict(_integers(wanted, config, given)),
    }


def _vectors(
    wanted: set[str], config: Any, given: Mapping[str, int]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Queries of a Q-Former, features of a detector, patches with their places, series of values."""
    for name, (stream, field) in EMBEDDED.items():
        if name in wanted:
            yield name, _zeros(length(given, stream), getattr(config, field))
    if "query_embeds" in wanted and "encoder_hidden_states" in wanted:
        yield "encoder_hidden_states", _zeros(length(given, IMAGE), config.encoder_hidden_size)
    if "flattened_patches" in wanted:  # row and column stand before the pixels
        vision = getattr(config, "vision_config", config)
        yield "flattened_patches", _zeros(length(given, IMAGE), vision.patch_embed_hidden_size + 2)
    if "past_values" in wanted and hasattr(config, "num_input_channels"):
        yield "past_values", _zeros(config.context_length, config.num_input_channels)


def _integers(
    wanted: set[str], config: Any, given: Mapping[str, int]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Texts beside the text, the places of words on a page, the number of a language."""
    if "qformer_input_ids" in wanted:
        yield "qformer_input_ids", torch.full((1, length(given, TOKENS)), 3, device="cpu")
    if "task_inputs" in wanted:
        yield "task_inputs", torch.full((1, config.task_seq_len), 3, device="cpu")
    if "bbox" in wanted:
        shape = (1, length(given, TOKENS), 4)
        yield "bbox", torch.zeros(shape, dtype=torch.long, device="cpu")
    if "lang_ids" in wanted and hasattr(config, "languages"):
        yield "lang_ids", torch.zeros(1, dtype=torch.long, device="cpu")


def _zeros(number: int, width: int) -> torch.Tensor:
    return torch.zeros(1, number, width, device="meta")
