"""Qwen2-VL and 2.5-VL: a vision transformer, a merger, and a language model that reads text and images as one sequence.

Vision: blocks over p patches per frame, every pair of a frame (2.5: in most layers those of a window only, for images
whose sides are whole windows), merger on p/4 tokens; language: Qwen2. The towers `vision` and `language` can be
frozen apart; a frozen vision tower, with nothing trained before it, costs its forward pass only. Sources: Qwen2-VL
(arXiv:2409.12191), Qwen2.5-VL (arXiv:2502.13923), the model classes in Hugging Face transformers; verl
`flops_counter.py` counts the merger on unmerged patches. Streams: `tokens` is the whole sequence of
the language model, merged patches included; `image` the patches of one frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.encoder_stack import stack, useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.shapes import Decoder, GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Term

ARCHITECTURES = ("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration")

NEUTRAL = listed(
    """
    image_token_id image_token_index spatial_patch_size tokens_per_second video_token_id vision_end_token_id
    vision_start_token_id vision_token_id
    """
)

VISION, LANGUAGE = "vision", "language"
IMAGE = "image"


def read(fields: Fields, architecture: str) -> Model:
    """A vision tower before a dense decoder."""
    text = fields.inner("text_config") if fields.has("text_config") else fields
    shape = _language(text, fields)
    vision = fields.inner("vision_config")
    newer = architecture == "Qwen2_5_VLForConditionalGeneration"
    parts = _vision_2_5(vision, shape.hidden) if newer else _vision_2(vision, shape.hidden)
    terms = tuple(replace(term, tower=VISION) for term in useful(parts))
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
    attention = GroupedAttention(*hf_config.heads(text, hidden), qkv_bias=True)
    block = Mlp(text.size("intermediate_size"), gated=True)
    windows = hf_config.windows(text, number)
    layer = Layer(attention, block, 2 * hidden)
    layers = hf_config.windowed(layer, windows)
    tied = outer.flag("tie_word_embeddings", default=False)
    if text is not outer and text.flag("tie_word_embeddings", default=tied) != tied:
        raise outer.contradiction("text_config says otherwise", "tie_word_embeddings")
    return Decoder(hidden, text.size("vocab_size"), tied, layers, hidden)


def _vision_2(fields: Fields, out: int) -> Iterator[Term]:
    """Layer norms, ungated MLPs, every pair."""
    hidden = fields.size("embed_dim")
    if fields.size("hidden_size") != out:
        raise fields.error("hidden_size", f"contradicts the language model's {out}")
    block = Mlp(fields.size("mlp_ratio") * hidden, gated=False, bias=True)
    layer = Layer(_attention(fields, hidden), block, 2 * layer_norm(hidden))
    yield from _tower(fields, hidden, (layer,) * fields.size("depth"), layer_norm(hidden), out)


def _vision_2_5(fields: Fields, out: int) -> Iterator[Term]:
    """RMS norms, gated MLPs, windows of window_size/patch_size patches to a side, except in fullatt_block_indexes."""
    hidden, number = fields.size("hidden_size"), fields.size("depth")
    if fields.size("out_hidden_size") != out:
        raise fields.error("out_hidden_size", f"contradicts the language model's {out}")
    side, full = fields.size("window_size"), fields.sizes("fullatt_block_indexes", least=0)
    if any(index >= number for index in full):
        raise fields.contradiction("a layer that is not there", "fullatt_block_indexes", "depth")
    patches = (side // fields.size("patch_size")) ** 2
    attention = _attention(fields, hidden)
    block = Mlp(fields.size("intermediate_size"), gated=True, bias=True)
    whole = Layer(attention, block, 2 * hidden)
    chunked = replace(whole, mixer=replace(attention, chunk=patches))
    layers = tuple(whole if index in full else chunked for index in range(number))
    yield from _tower(fields, hidden, layers, hidden, out)


def _attention(fields: Fields, hidden: int) -> GroupedAttention:
    heads = fields.size("num_heads")
    if hidden % heads:
        raise fields.error("num_heads", f"{heads} must divide the vision tower's width {hidden}")
    return GroupedAttention(heads, heads, hidden // heads, qkv_bias=True, out_bias=True)


def _tower(
    fields: Fields, hidden: int, layers: tuple[Layer, ...], norm: int, out: int
) -> Iterator[Term]:
    channels = fields.size("in_channels", "in_chans")
    pixels = channels * fields.size("temporal_patch_size") * fields.size("patch_size") ** 2
    image = Extent(stream=IMAGE)
    yield linear(
        "vision.patch_embed", Part.PROJECTION, pixels, hidden, extent=image, in_layers=False
    )
    yield from stack(hidden, layers, IMAGE, "vision.")
    yield vector("vision.merger.norm", norm, in_layers=False)
    yield from _merger(hidden, fields.size("spatial_merge_size") ** 2, out)


def _merger(hidden: int, merged: int, out: int) -> Iterator[Term]:
    """Two linear layers on every `merged` patches together, hence 1/`merged` of their FLOPs per patch."""
    wide = hidden * merged
    for name, outputs in (("up_proj", wide), ("down_proj", out)):
        whole = linear(
            f"vision.merger.{name}", Part.PROJECTION, wide, outputs, bias=True, in_layers=False
        )
        yield replace(whole, flops=2 * hidden * outputs, extent=Extent(stream=IMAGE))
