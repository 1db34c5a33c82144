"""Qwen3-VL and Qwen3.5: a vision transformer, a merger, deeper mergers, and a language model of another family.

Vision: blocks over p patches per image, every pair, learned positions; a merger on p/4 tokens, and in Qwen3-VL one more
for each layer in deepstack_visual_indexes, whose outputs are added to the language model's first layers. The language
model is read by its own family. Sources: Qwen3-VL (arXiv:2511.21631), Qwen3.5 (model cards), the model classes in
Hugging Face transformers. Streams: `tokens` is the whole sequence of the language model, merged patches included;
`image` the patches of one image or frame. The towers `vision` and `language` can be frozen apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.flops.encoder_stack import stack, useful
from ofu_exporter.flops.families import decoder, hybrid, mixture
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import embedding, linear, vector
from ofu_exporter.flops.shapes import Decoder, GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Term


class Language(NamedTuple):
    """The language model of an architecture: its own architecture's name, and the function that reads it."""

    architecture: str
    read: Callable[[Fields, str], Model]
    deep: bool = False
    """Whether layers of the vision transformer have mergers, too."""


ARCHITECTURES = {
    "Qwen3VLForConditionalGeneration": Language("Qwen3ForCausalLM", decoder.read, True),
    "Qwen3VLMoeForConditionalGeneration": Language("Qwen3MoeForCausalLM", mixture.read, True),
    "Qwen3_5ForConditionalGeneration": Language("Qwen3_5ForCausalLM", hybrid.read),
    "Qwen3_5MoeForConditionalGeneration": Language("Qwen3_5MoeForCausalLM", hybrid.read),
}

NEUTRAL = (
    decoder.NEUTRAL
    | mixture.NEUTRAL
    | hybrid.NEUTRAL
    | listed(
        """
        image_token_id language_model_only mamba_ssm_dtype mtp_num_hidden_layers mtp_use_dedicated_embeddings
        video_token_id vision_end_token_id vision_start_token_id
        """
    )
)
VISION, LANGUAGE, IMAGE = "vision", "language", "image"


def read(fields: Fields, architecture: str) -> Model:
    """A vision tower before a language model."""
    language = ARCHITECTURES[architecture]
    text, vision = fields.inner("text_config"), fields.inner("vision_config")
    shape = language.read(text, language.architecture).shape
    assert shape is not None
    tied = text.flag("tie_word_embeddings", default=False)
    shape = replace(shape, tied=fields.flag("tie_word_embeddings", default=tied))
    terms = useful(_tower(vision, shape, language.deep))
    return Model(
        "qwen3_vl",
        architecture,
        shape,
        tuple(replace(term, tower=VISION) for term in terms),
        towers=(VISION, LANGUAGE),
        layers=vision.size("depth") + text.size("num_hidden_layers"),
        streams=(TOKENS, IMAGE),
    )


def _tower(fields: Fields, language: Decoder, deep: bool) -> Iterator[Term]:
    hidden, heads, depth = (
        fields.size("hidden_size"),
        fields.size("num_heads"),
        fields.size("depth"),
    )
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "hidden_size", "num_heads")
    if fields.size("out_hidden_size") != language.hidden:
        raise fields.error("out_hidden_size", f"contradicts the language model's {language.hidden}")
    pixels = (
        fields.size("in_channels")
        * fields.size("temporal_patch_size")
        * fields.size("patch_size") ** 2
    )
    yield linear(
        "vision.patch_embed",
        Part.PROJECTION,
        pixels,
        hidden,
        bias=True,
        extent=Extent(stream=IMAGE),
        in_layers=False,
    )
    yield embedding("vision.embed_positions", fields.size("num_position_embeddings"), hidden)
    attention = GroupedAttention(heads, heads, hidden // heads, qkv_bias=True, out_bias=True)
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    layer = Layer(attention, block, 2 * layer_norm(hidden))
    yield from stack(hidden, (layer,) * depth, IMAGE, "vision.")
    merged = fields.size("spatial_merge_size") ** 2
    yield from _merger("vision.merger", hidden, merged, language.hidden, layer_norm(hidden))
    for _ in _deep_mergers(fields, depth, deep):
        norm = layer_norm(merged * hidden)
        yield from _merger("vision.deepstack", hidden, merged, language.hidden, norm)


def _deep_mergers(fields: Fields, depth: int, deep: bool) -> tuple[int, ...]:
    """The layers with their own merger. In Qwen3.5 a configuration may not name any."""
    named = fields.has("deepstack_visual_indexes")
    layers = fields.sizes("deepstack_visual_indexes", least=0) if named else ()
    if not deep and layers:
        raise fields.error("deepstack_visual_indexes", f"{list(layers)} is not known; known: []")
    if any(index >= depth for index in layers):
        raise fields.contradiction("a layer that is not there", "deepstack_visual_indexes", "depth")
    return layers


def _merger(name: str, hidden: int, merged: int, out: int, norm: int) -> Iterator[Term]:
    """Two linear layers on every `merged` patches together, hence 1/`merged` of their FLOPs per patch."""
    wide = hidden * merged
    for side, outputs in (("up_proj", wide), ("down_proj", out)):
        whole = linear(f"{name}.{side}", Part.PROJECTION, wide, outputs, bias=True, in_layers=False)
        yield replace(whole, flops=2 * hidden * outputs, extent=Extent(stream=IMAGE))
    yield vector(f"{name}.norm", norm, in_layers=False)
