"""Qwen2-VL: a vision transformer, a merger, and a language model that reads text and merged patches as one sequence.

Vision: blocks over p patches per frame, every pair of a frame, merger on p/4 tokens; language: Qwen2. The towers
`vision` and `language` can be frozen apart; a frozen vision tower, with nothing trained before it, costs its
forward pass only. Sources: Qwen2-VL (arXiv:2409.12191), the model class in Hugging Face transformers;
verl `flops_counter.py` counts the merger on unmerged patches. Streams: `tokens` is the whole sequence of
the language model, merged patches included; `image` the patches of one frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ofu_exporter.flops import hf
from ofu_exporter.flops.blocks import linear, vector
from ofu_exporter.flops.encoding import stack, useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral import listed
from ofu_exporter.flops.shapes import Decoder, GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Term

ARCHITECTURES = ("Qwen2VLForConditionalGeneration",)

NEUTRAL = listed(
    """
    image_token_id image_token_index spatial_patch_size video_token_id vision_end_token_id vision_start_token_id
    vision_token_id
    """
)

VISION, LANGUAGE = "vision", "language"
IMAGE = "image"


def read(fields: Fields, architecture: str) -> Model:
    """A vision tower before a dense decoder."""
    text = fields.inner("text_config") if fields.has("text_config") else fields
    shape = _language(text, fields)
    vision = fields.inner("vision_config")
    if vision.size("hidden_size") != shape.hidden:
        raise vision.error("hidden_size", f"contradicts the language model's {shape.hidden}")
    terms = tuple(replace(term, tower=VISION) for term in useful(_vision(vision, shape.hidden)))
    return Model(
        "vision_language",
        architecture,
        shape,
        terms,
        towers=(VISION, LANGUAGE),
        layers=vision.size("depth") + len(shape.layers),
        streams=(TOKENS, IMAGE),
    )


def _language(text: Fields, outer: Fields) -> Decoder:
    hidden, number = text.size("hidden_size"), text.size("num_hidden_layers")
    attention = GroupedAttention(*hf.heads(text, hidden), qkv_bias=True)
    block = Mlp(text.size("intermediate_size"), gated=True)
    layers = tuple(
        Layer(replace(attention, window=window), block, 2 * hidden)
        for window in hf.windows(text, number)
    )
    tied = outer.flag("tie_word_embeddings", default=False)
    if text is not outer and text.flag("tie_word_embeddings", default=tied) != tied:
        raise outer.contradiction("text_config says otherwise", "tie_word_embeddings")
    return Decoder(hidden, text.size("vocab_size"), tied, layers, hidden)


def _vision(fields: Fields, out: int) -> Iterator[Term]:
    hidden, number, heads = fields.size("embed_dim"), fields.size("depth"), fields.size("num_heads")
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "embed_dim", "num_heads")
    channels = fields.size("in_channels", "in_chans")
    pixels = channels * fields.size("temporal_patch_size") * fields.size("patch_size") ** 2
    attention = GroupedAttention(heads, heads, hidden // heads, qkv_bias=True, out_bias=True)
    block = Mlp(fields.size("mlp_ratio") * hidden, gated=False, bias=True)
    image = Extent(stream=IMAGE)
    yield linear(
        "vision.patch_embed", Part.PROJECTION, pixels, hidden, extent=image, in_layers=False
    )
    yield from stack(
        hidden, (Layer(attention, block, 2 * layer_norm(hidden)),) * number, IMAGE, "vision."
    )
    merged = fields.size("spatial_merge_size") ** 2
    yield from _merger(hidden, merged, out)


def _merger(hidden: int, merged: int, out: int) -> Iterator[Term]:
    """Two linear layers on every `merged` patches together, hence 1/`merged` of their FLOPs per patch."""
    wide = hidden * merged
    yield vector("vision.merger.norm", layer_norm(hidden), in_layers=False)
    for name, outputs in (("up_proj", wide), ("down_proj", out)):
        whole = linear(
            f"vision.merger.{name}", Part.PROJECTION, wide, outputs, bias=True, in_layers=False
        )
        per_patch = 2 * hidden * outputs
        yield replace(whole, flops=per_patch, extent=Extent(stream=IMAGE))
