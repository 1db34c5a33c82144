"""Llama 4, Gemma 4 and Kimi K2.5: a vision transformer, a projector, and a language model of another family.

The transformer runs over p patches of an image, every pair; the projector joins neighbouring patches to one token.
A configuration without `vision_config` counts the language model alone, and says so. Sources: Llama 4, Gemma 4 and Kimi
K2.5 (model cards), Kimi-VL (arXiv:2504.07491) for its tower, and the model classes in Hugging Face transformers.
Streams and towers are those of the family `vision_language`. Audio towers are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.families import deepseek, gemma4, mixture
from ofu_exporter.flops.families.vision_language import IMAGE, LANGUAGE, PER_PATCH, VISION
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import embedding, layer_norm, outside, vector
from ofu_exporter.flops.shapes import Layer, Mlp, encoder
from ofu_exporter.flops.terms import TOKENS, Part, Term, merge

TEXT_ONLY = "there is no vision_config: the language model alone is counted, as for text"


class Tower(NamedTuple):
    """The vision side of a model."""

    depth: int
    merged: int
    """Patches that become one token."""
    terms: tuple[Term, ...]


Read = Callable[[Fields, str], Model]
ReadTower = Callable[[Fields, int], Tower]


def _whole(name: str, inputs: int, outputs: int, merged: int, *, bias: bool) -> Term:
    """A linear layer on every `merged` patches together, hence 1/`merged` of its FLOPs per patch."""
    term = outside(name, Part.PROJECTION, inputs, outputs, PER_PATCH, bias=bias)
    return replace(term, flops=2 * inputs // merged * outputs)


def llama_4(fields: Fields, out: int) -> Tower:
    """Four patches become one token by pixel shuffle. The tower's class token counts as one more patch."""
    hidden, depth = fields.size("hidden_size"), fields.size("num_hidden_layers")
    merged = 4
    if fields.has("pixel_shuffle_ratio") and fields.number("pixel_shuffle_ratio") != 0.5:
        raise fields.error("pixel_shuffle_ratio", "is not known; known: 0.5")
    patch = fields.size("patch_size")
    rows = (fields.size("image_size") // patch) ** 2 + 1
    wide = fields.size("projector_input_dim"), fields.size("projector_output_dim")
    attention = hf_config.multi_head(fields, hidden, "num_attention_heads")
    width = fields.size("intermediate_size")  # also of four patches that are joined
    layer = Layer(attention, Mlp(width, False, bias=True), 4 * hidden)

    def terms() -> Iterator[Term]:
        pixels = fields.size("num_channels") * patch**2
        yield outside("vision.patch_embed", Part.PROJECTION, pixels, hidden, PER_PATCH, bias=False)
        yield embedding("vision.embed_positions", rows, hidden)
        yield vector("vision.norms", hidden + 2 * layer_norm(hidden), in_layers=False)
        yield from encoder(hidden, (layer,) * depth, IMAGE, "vision.")
        yield _whole("vision.adapter.fc1", width, wide[0], merged, bias=False)
        yield replace(
            outside("vision.adapter.fc2", Part.PROJECTION, wide[1], wide[1], PER_PATCH, bias=False),
            flops=2 * wide[1] * wide[1] // merged,
        )
        through = fields.size("vision_output_dim")
        yield _whole("vision.projector", through, out, merged, bias=False)

    return Tower(depth, merged, merge(terms()))


def gemma_4(fields: Fields, out: int) -> Tower:
    """Gated MLPs, norms before and after; pooling_kernel_size to a side become one token."""
    hidden, depth = fields.size("hidden_size"), fields.size("num_hidden_layers")
    heads, groups, head_dim = hf_config.heads(fields, hidden)
    fields.refuse(True, "use_clipped_linears", "attention_bias")
    attention = GroupedAttention(heads, groups, head_dim, norm_parameters=2 * head_dim)
    layer = Layer(attention, Mlp(fields.size("intermediate_size"), gated=True), 4 * hidden)
    merged = fields.size("pooling_kernel_size") ** 2

    def terms() -> Iterator[Term]:
        pixels = 3 * fields.size("patch_size") ** 2
        yield outside("vision.patch_embed", Part.PROJECTION, pixels, hidden, PER_PATCH, bias=False)
        yield embedding(
            "vision.embed_positions", 2 * fields.size("position_embedding_size"), hidden
        )
        yield from encoder(hidden, (layer,) * depth, IMAGE, "vision.")
        yield _whole("vision.projector", hidden, out, merged, bias=False)

    return Tower(depth, merged, merge(terms()))


def kimi(fields: Fields, out: int) -> Tower:
    """MoonViT: biases everywhere; merge_kernel_size patches become one token."""
    hidden, depth = fields.size("vt_hidden_size"), fields.size("vt_num_hidden_layers")
    if fields.size("mm_hidden_size", default=hidden) != hidden:
        raise fields.contradiction(
            "the projector reads the tower", "mm_hidden_size", "vt_hidden_size"
        )
    if fields.size("text_hidden_size", default=out) != out:
        raise fields.error("text_hidden_size", f"contradicts the language model's {out}")
    merged = prod(fields.sizes("merge_kernel_size", sides=2))
    attention = hf_config.multi_head(fields, hidden, "vt_num_attention_heads")
    layer = Layer(attention, Mlp(fields.size("vt_intermediate_size"), False, bias=True), 4 * hidden)

    def terms() -> Iterator[Term]:
        pixels = 3 * fields.size("patch_size") ** 2
        yield outside("vision.patch_embed", Part.PROJECTION, pixels, hidden, PER_PATCH)
        rows = fields.size("init_pos_emb_height") * fields.size("init_pos_emb_width")
        yield embedding("vision.embed_positions", rows, hidden)
        yield from encoder(hidden, (layer,) * depth, IMAGE, "vision.")
        yield vector("vision.norms", 2 * layer_norm(hidden), in_layers=False)
        yield _whole("vision.projector.in", merged * hidden, merged * hidden, merged, bias=True)
        yield _whole("vision.projector.out", merged * hidden, out, merged, bias=True)

    return Tower(depth, merged, merge(terms()))


ARCHITECTURES: dict[str, tuple[str, Read, ReadTower]] = {
    "Llama4ForConditionalGeneration": ("Llama4ForCausalLM", mixture.read, llama_4),
    "Gemma4ForConditionalGeneration": ("Gemma4ForCausalLM", gemma4.read, gemma_4),
    "KimiK25ForConditionalGeneration": ("DeepseekV3ForCausalLM", deepseek.read, kimi),
}
"""The language model of each, who reads it, and who reads the tower."""


def read(fields: Fields, architecture: str) -> Model:
    language, read_language, read_tower = ARCHITECTURES[architecture]
    if fields.has("audio_config"):
        raise fields.error("audio_config", "is not known: audio towers are not counted")
    text = fields.inner("text_config")
    text.has("architectures")
    whole = read_language(text, language)
    assert whole.shape is not None
    tied = fields.flag("tie_word_embeddings", default=whole.shape.tied)
    model = replace(
        whole,
        family="multimodal",
        architecture=architecture,
        shape=replace(whole.shape, tied=tied),
        notes=(TEXT_ONLY,),
    )
    if not fields.has("vision_config"):
        return model
    tower = read_tower(fields.inner("vision_config"), whole.shape.hidden)
    return replace(
        model,
        terms=tuple(replace(term, tower=VISION) for term in tower.terms),
        towers=(VISION, LANGUAGE),
        layers=whole.layers + tower.depth,
        streams=(TOKENS, IMAGE),
        merged={IMAGE: tower.merged},
        notes=(),
    )
