"""Makes the terms of the projectors that turn a vision tower's output into tokens of a language model.

Two linear layers as a rule: on every patch, or on neighbouring patches side by side, which makes fewer tokens. One
feature is one token of the language model; FLOPs are per feature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import NamedTuple

from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.shapes import layer_norm
from ofu_exporter.flops.terms import Extent, Part, Per, Term

FEATURES = "features"


@dataclass(frozen=True, slots=True)
class TowerOutput:
    """The output of a tower, and the width that the language model needs."""

    fields: Fields
    """The configuration of the whole model."""
    vision: Fields
    """That of the tower."""
    hidden: int
    patches: int
    """Patches of one image; 0 if images have any size."""
    special: int
    out: int


class Projection(NamedTuple):
    """A projector's terms."""

    terms: tuple[Term, ...]
    tokens: int
    """Features of one image; 0 if images have any size."""
    merged: int = 1
    """Patches that are one feature."""


Projector = Callable[[TowerOutput], Projection]
"""Reads the projector of a model."""


def _matrix(name: str, inputs: int, outputs: int, bias: bool = False) -> Term:
    extent = Extent(stream=FEATURES)
    return linear(
        f"projector.{name}",
        Part.PROJECTION,
        inputs,
        outputs,
        bias=bias,
        extent=extent,
        in_layers=False,
    )


def _norm(features: int) -> Term:
    return vector("projector.norm", features, in_layers=False)


def _layers(fields: Fields, default: int) -> int:
    """How many layers of the tower are read, side by side."""
    if fields.is_list("vision_feature_layer"):
        return len(fields.items("vision_feature_layer"))
    fields.integer("vision_feature_layer", default)
    return 1


def _selected(tower: TowerOutput, default: str) -> int:
    """Features of one image: all tokens, or without the first."""
    strategy = tower.fields.word("vision_feature_select_strategy", ("default", "full"), default)
    return tower.patches + tower.special - (strategy == "default")


def _two(inputs: int, between: int, out: int, bias: bool = True) -> tuple[Term, Term]:
    return _matrix("linear_1", inputs, between, bias), _matrix("linear_2", between, out, bias)


def llava(tower: TowerOutput) -> Projection:
    """LLaVA: two linear layers on every patch."""
    bias = tower.fields.flag("multimodal_projector_bias", default=True)
    wide = _layers(tower.fields, -2) * tower.hidden
    return Projection(_two(wide, tower.out, tower.out, bias), _selected(tower, "default"))


def llava_next(tower: TowerOutput) -> Projection:
    """LLaVA-NeXT and OneVision: the same, and a vector that ends each row of patches."""
    made = llava(tower)
    newline = vector("projector.newline", tower.out, in_layers=False)
    return made._replace(terms=(*made.terms, newline))


def vip_llava(tower: TowerOutput) -> Projection:
    """ViP-LLaVA: several layers of the tower side by side, normalised."""
    wide = _layers(tower.fields, -2) * tower.hidden
    terms = (_norm(layer_norm(wide)), *_two(wide, tower.out, tower.out))
    return Projection(terms, tower.patches + tower.special - 1)


def pali_gemma(tower: TowerOutput) -> Projection:
    """PaliGemma: one linear layer on every patch."""
    outputs = tower.vision.size("projection_dim", default=tower.out)
    if outputs != tower.out:
        raise tower.vision.error("projection_dim", f"contradicts the language model's {tower.out}")
    return Projection((_matrix("linear", tower.hidden, tower.out, True),), tower.patches)


def gemma_3(tower: TowerOutput) -> Projection:
    """Gemma 3: the mean over neighbouring patches, normalised, and one matrix."""
    tokens = tower.fields.size("mm_tokens_per_image")
    if isqrt(tokens) ** 2 != tokens:
        raise tower.fields.error("mm_tokens_per_image", f"{tokens} is not a square")
    return Projection((_norm(tower.hidden), _matrix("linear", tower.hidden, tower.out)), tokens)


def _side_by_side(tower: TowerOutput, side: int) -> tuple[int, int]:
    """Width and number of features of side x side patches."""
    if tower.patches % side**2:
        raise tower.fields.error(
            "vision_config", f"has {tower.patches} patches, no whole {side}x{side}"
        )
    return tower.hidden * side**2, tower.patches // side**2


def cohere(tower: TowerOutput) -> Projection:
    """Command A Vision: neighbouring patches side by side, a gated block."""
    wide, tokens = _side_by_side(tower, tower.fields.size("downsample_factor"))
    between = tower.fields.size("alignment_intermediate_size", default=tower.out)
    up, down = (
        _matrix("linear_1", wide, between, True),
        _matrix("linear_2", between // 2, tower.out, True),
    )
    return Projection((up, down), tokens)


def aya(tower: TowerOutput) -> Projection:
    """Aya Vision: the same, normalised."""
    made = cohere(tower)
    wide = tower.hidden * tower.fields.size("downsample_factor") ** 2
    return made._replace(terms=(_norm(layer_norm(wide)), *made.terms))


def _shuffle(fields: Fields, name: str) -> int:
    """The side of the patches that a shuffle by a ratio (0.5) puts side by side."""
    ratio = fields.number(name, 0.5)
    side = round(1 / ratio)
    if side * ratio != 1:
        raise fields.error(name, f"{ratio} is not one over a whole number")
    return side


def intern(tower: TowerOutput) -> Projection:
    """InternVL: neighbouring patches side by side, normalised, two linear layers."""
    side = _shuffle(tower.fields, "downsample_ratio")
    features = replace(tower, patches=_selected(tower, "default"), special=0)
    wide, tokens = _side_by_side(features, side)
    return Projection((_norm(layer_norm(wide)), *_two(wide, tower.out, tower.out)), tokens)


def idefics(tower: TowerOutput) -> Projection:
    """Idefics3 and SmolVLM: neighbouring patches side by side, one matrix."""
    wide, tokens = _side_by_side(tower, tower.fields.size("scale_factor"))
    return Projection((_matrix("linear", wide, tower.out),), tokens)


def llama_4(tower: TowerOutput) -> Projection:
    """Llama 4: neighbouring patches side by side, an MLP in the tower, one matrix."""
    wide, tokens = _side_by_side(tower, _shuffle(tower.vision, "pixel_shuffle_ratio"))
    between, outputs = (
        tower.vision.size("projector_input_dim"),
        tower.vision.size("projector_output_dim"),
    )
    if tower.vision.size("intermediate_size") != wide:
        raise tower.vision.error(
            "intermediate_size", f"must be {wide}, the width of the shuffled patches"
        )
    if tower.vision.size("vision_output_dim") != outputs:
        raise tower.vision.contradiction(
            "must be equal", "vision_output_dim", "projector_output_dim"
        )
    terms = (
        _matrix("fc1", wide, between),
        _matrix("fc2", between, outputs),
        _matrix("linear_1", outputs, tower.out),
    )
    return Projection(terms, tokens)


def mistral(tower: TowerOutput) -> Projection:
    """Mistral 3: neighbouring patches normalised and merged, two linear layers."""
    merged = tower.fields.size("spatial_merge_size") ** 2
    bias = tower.fields.flag("multimodal_projector_bias", default=False)
    terms = (
        _norm(tower.hidden),
        _matrix("merge", merged * tower.hidden, tower.hidden),
        *_two(_layers(tower.fields, -1) * tower.hidden, tower.out, tower.out, bias),
    )
    return Projection(terms, 0, merged)


def glm(tower: TowerOutput) -> Projection:
    """GLM-4V: neighbouring patches merged by a convolution, one matrix, normalised, a gated block."""
    merged, width = (
        tower.vision.size("spatial_merge_size") ** 2,
        tower.vision.size("intermediate_size"),
    )
    if tower.vision.size("out_hidden_size") != tower.out:
        raise tower.vision.error("out_hidden_size", f"contradicts the language model's {tower.out}")
    terms = (
        _matrix("downsample", merged * tower.hidden, tower.out, True),
        _matrix("linear", tower.out, tower.out),
        _norm(layer_norm(tower.out)),
        _matrix("gate_proj", tower.out, width),
        _matrix("up_proj", tower.out, width),
        _matrix("down_proj", width, tower.out),
    )
    return Projection(terms, 0, merged)


def kimi(tower: TowerOutput) -> Projection:
    """Kimi K2.5: patches normalised, neighbours side by side, two linear layers."""
    sides = tower.vision.sizes("merge_kernel_size")
    merged, normed = prod(sides), tower.fields.size("projection_hidden_size")
    if normed != tower.hidden:
        raise tower.fields.error(
            "projection_hidden_size", f"contradicts the tower's {tower.hidden}"
        )
    wide = merged * tower.hidden
    return Projection((_norm(layer_norm(normed)), *_two(wide, wide, tower.out)), 0, merged)


def lfm(tower: TowerOutput) -> Projection:
    """LFM2-VL: neighbouring patches side by side, normalised or not, two linear layers."""
    merged = tower.fields.size("downsample_factor") ** 2
    wide, bias = merged * tower.hidden, tower.fields.flag("projector_bias", default=True)
    normed = tower.fields.flag("projector_use_layernorm", default=True)
    between = tower.fields.size("projector_hidden_size")
    terms = (_norm(normed * layer_norm(wide)), *_two(wide, between, tower.out, bias))
    return Projection(terms, 0, merged)


def gemma_4(tower: TowerOutput) -> Projection:
    """Gemma 4: the mean over neighbouring patches, taken as a product with a matrix of ones, and one matrix."""
    for unused in ("attention_bias", "global_head_dim"):  # the class does not read these
        tower.vision.has(unused)
    merged = tower.vision.size("pooling_kernel_size") ** 2
    extent = Extent(Per.PAIR, "image", merged=merged)
    mean = Term("projector.mean", Part.CORE, extent, flops=2 * tower.hidden, in_layers=False)
    return Projection((mean, _matrix("linear", tower.hidden, tower.out)), 0, merged)
