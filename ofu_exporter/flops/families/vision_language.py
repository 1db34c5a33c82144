"""Qwen2-VL, 2.5-VL, 3-VL and Qwen3.5: a vision transformer, a merger, and a language model of another family.

Vision: blocks over p patches per image or frame, every pair (2.5: in most layers those of a window only, for images
whose sides are whole windows); a merger on p/4 tokens, and in Qwen3-VL one more for each layer in
deepstack_visual_indexes, whose outputs are added to the language model's first layers. The language model is read by
its own family. Sources: Qwen2-VL (arXiv:2409.12191), Qwen2.5-VL (arXiv:2502.13923), Qwen3-VL (arXiv:2511.21631),
Qwen3.5 (model cards), the model classes in Hugging Face transformers; verl `flops_counter.py` counts the merger on
unmerged patches. Streams: `tokens` is the whole sequence of the language model, merged patches included; `image` the
patches of one image or frame. The towers `vision` and `language` can be frozen apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.families import decoder, hybrid, mixture
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import Norms, embedding, layer_norm, outside, rms_norm, vector
from ofu_exporter.flops.shapes import Layer, Mlp, encoder
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Term, merge


class VisionPlan(NamedTuple):
    """What the class of an architecture fixes and no field of the configuration says."""

    language: str
    """The architecture of the language model."""
    read: Callable[[Fields, str], Model]
    """Reads the language model."""
    width: str = "hidden_size"
    """The field with the width of the tower."""
    out: str = "out_hidden_size"
    """The field with the width of the language model."""
    norm: Norms = layer_norm
    is_windowed: bool = False
    """Whether MLPs are gated, and layers attend in windows but for those in fullatt_block_indexes."""
    positions: bool = True
    """Whether there is a table of positions, and the product of the patches has a bias."""
    deep: bool = False
    """Whether layers of the vision transformer have mergers, too."""


ARCHITECTURES = {
    "Qwen2VLForConditionalGeneration": VisionPlan(
        "Qwen2ForCausalLM", decoder.read, width="embed_dim", out="hidden_size", positions=False
    ),
    "Qwen2_5_VLForConditionalGeneration": VisionPlan(
        "Qwen2ForCausalLM", decoder.read, norm=rms_norm, is_windowed=True, positions=False
    ),
    "Qwen3VLForConditionalGeneration": VisionPlan("Qwen3ForCausalLM", decoder.read, deep=True),
    "Qwen3VLMoeForConditionalGeneration": VisionPlan(
        "Qwen3MoeForCausalLM", mixture.read, deep=True
    ),
    "Qwen3_5ForConditionalGeneration": VisionPlan("Qwen3_5ForCausalLM", hybrid.read),
    "Qwen3_5MoeForConditionalGeneration": VisionPlan("Qwen3_5MoeForCausalLM", hybrid.read),
}

VISION, LANGUAGE, IMAGE = "vision", "language", "image"
PER_PATCH = Extent(stream=IMAGE)


def read(fields: Fields, architecture: str) -> Model:
    plan = ARCHITECTURES[architecture]
    text = fields.inner("text_config") if fields.has("text_config") else fields
    vision = fields.inner("vision_config")
    if (
        text is not fields
    ):  # transformers 4.52 to 4.57 wrote Qwen2-VL's text fields in both places, and read these
        fields.restates(text)
        if not fields.flag("use_sliding_window", default=True):
            fields.has("sliding_window")
    shape = plan.read(text, plan.language).shape
    assert shape is not None
    shape = replace(shape, tied=fields.flag("tie_word_embeddings", default=shape.tied))
    terms = merge(_tower(vision, plan, shape.hidden))
    return Model(
        "vision_language",
        architecture,
        shape,
        tuple(replace(term, tower=VISION) for term in terms),
        towers=(VISION, LANGUAGE),
        layers=vision.size("depth") + text.size("num_hidden_layers"),
        streams=(TOKENS, IMAGE),
        merged={IMAGE: vision.size("spatial_merge_size") ** 2},
    )


def _tower(fields: Fields, plan: VisionPlan, out: int) -> Iterator[Term]:
    hidden, depth = fields.size(plan.width), fields.size("depth")
    if fields.size(plan.out) != out:
        raise fields.error(plan.out, f"contradicts the language model's {out}")
    pixels = fields.size("temporal_patch_size") * fields.size("patch_size") ** 2
    pixels *= fields.size("in_channels", "in_chans")
    part, bias = Part.PROJECTION, plan.positions
    yield outside("vision.patch_embed", part, pixels, hidden, PER_PATCH, bias=bias)
    if plan.positions:
        yield embedding("vision.embed_positions", fields.size("num_position_embeddings"), hidden)
    yield from encoder(hidden, _layers(fields, plan, hidden, depth), IMAGE, "vision.")
    merged = fields.size("spatial_merge_size") ** 2
    yield from _merger("vision.merger", hidden, merged, out, plan.norm(hidden))
    name = "deepstack_visual_indexes"
    deep = fields.sizes(name, least=0) if fields.has(name) else ()
    if deep and not plan.deep:
        raise fields.error(name, f"{list(deep)} is not known; known: []")
    for _ in fields.places(name, depth, "depth") if deep else ():
        yield from _merger("vision.deepstack", hidden, merged, out, layer_norm(merged * hidden))


def _layers(fields: Fields, plan: VisionPlan, hidden: int, depth: int) -> tuple[Layer, ...]:
    attention = hf_config.multi_head(fields, hidden, "num_heads")
    ratio = fields.optional("mlp_ratio")
    width = fields.size("intermediate_size") if ratio is None else ratio * hidden
    block = Mlp(width, gated=plan.is_windowed, bias=True)
    layer = Layer(attention, block, 2 * plan.norm(hidden))
    if not plan.is_windowed:
        return (layer,) * depth
    # Windows have window_size/patch_size patches to a side.
    full = fields.places("fullatt_block_indexes", depth, "depth")
    patches = (fields.size("window_size") // fields.size("patch_size")) ** 2
    chunked = replace(layer, mixer=replace(attention, chunk=patches))
    return tuple(layer if index in full else chunked for index in range(depth))


def _merger(name: str, hidden: int, merged: int, out: int, norm: int) -> Iterator[Term]:
    """Two linear layers on every `merged` patches together, hence 1/`merged` of their FLOPs per patch."""
    wide = hidden * merged
    for side, outputs in (("up_proj", wide), ("down_proj", out)):
        whole = outside(f"{name}.{side}", Part.PROJECTION, wide, outputs, PER_PATCH)
        yield replace(whole, flops=2 * hidden * outputs)
    yield vector(f"{name}.norm", norm, in_layers=False)
