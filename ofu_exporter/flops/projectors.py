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
class Seen:
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


class Projected(NamedTuple):
    """A projector's terms."""

    terms: tuple[Term, ...]
    tokens: int
    """Features of one image; 0 if images have any size."""
    merged: int = 1
    """Patches that are one feature."""


Projector = Callable[[Seen], Projected]
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


def _selected(seen: Seen, default: str) -> int:
    """Features of one image: all tokens, or without the first."""
    strategy = seen.fields.word("vision_feature_select_strategy", ("default", "full"), default)
    return seen.patches + seen.special - (strategy == "default")


def _two(inputs: int, between: int, out: int, bias: bool = True) -> tuple[Term, Term]:
    return _matrix("linear_1", inputs, between, bias), _matrix("linear_2", between, out, bias)


def llava(seen: Seen) -> Projected:
    """LLaVA: two linear layers on every patch."""
    bias = seen.fields.flag("multimodal_projector_bias", default=True)
    wide = _layers(seen.fields, -2) * seen.hidden
    return Projected(_two(wide, seen.out, seen.out, bias), _selected(seen, "default"))


def llava_next(seen: Seen) -> Projected:
    """LLaVA-NeXT and OneVision: the same, and a vector that ends each row of patches."""
    made = llava(seen)
    newline = vector("projector.newline", seen.out, in_layers=False)
    return made._replace(terms=(*made.terms, newline))


def vip_llava(seen: Seen) -> Projected:
    """ViP-LLaVA: several layers of the tower side by side, normalised."""
    wide = _layers(seen.fields, -2) * seen.hidden
    terms = (_norm(layer_norm(wide)), *_two(wide, seen.out, seen.out))
    return Projected(terms, seen.patches + seen.special - 1)


def pali_gemma(seen: Seen) -> Projected:
    """PaliGemma: one linear layer on every patch."""
    outputs = seen.vision.size("projection_dim", default=seen.out)
    if outputs != seen.out:
        raise seen.vision.error("projection_dim", f"contradicts the language model's {seen.out}")
    return Projected((_matrix("linear", seen.hidden, seen.out, True),), seen.patches)


def gemma_3(seen: Seen) -> Projected:
    """Gemma 3: the mean over neighbouring patches, normalised, and one matrix."""
    tokens = seen.fields.size("mm_tokens_per_image")
    if isqrt(tokens) ** 2 != tokens:
        raise seen.fields.error("mm_tokens_per_image", f"{tokens} is not a square")
    return Projected((_norm(seen.hidden), _matrix("linear", seen.hidden, seen.out)), tokens)


def _side_by_side(seen: Seen, side: int) -> tuple[int, int]:
    """Width and number of features of side x side patches."""
    if seen.patches % side**2:
        raise seen.fields.error(
            "vision_config", f"has {seen.patches} patches, no whole {side}x{side}"
        )
    return seen.hidden * side**2, seen.patches // side**2


def cohere(seen: Seen) -> Projected:
    """Command A Vision: neighbouring patches side by side, a gated block."""
    wide, tokens = _side_by_side(seen, seen.fields.size("downsample_factor"))
    between = seen.fields.size("alignment_intermediate_size", default=seen.out)
    up, down = (
        _matrix("linear_1", wide, between, True),
        _matrix("linear_2", between // 2, seen.out, True),
    )
    return Projected((up, down), tokens)


def aya(seen: Seen) -> Projected:
    """Aya Vision: the same, normalised."""
    made = cohere(seen)
    wide = seen.hidden * seen.fields.size("downsample_factor") ** 2
    return made._replace(terms=(_norm(layer_norm(wide)), *made.terms))


def _shuffle(fields: Fields, name: str) -> int:
    """The side of the patches that a shuffle by a ratio (0.5) puts side by side."""
    ratio = fields.number(name, 0.5)
    side = round(1 / ratio)
    if side * ratio != 1:
        raise fields.error(name, f"{ratio} is not one over a whole number")
    return side


def intern(seen: Seen) -> Projected:
    """InternVL: neighbouring patches side by side, normalised, two linear layers."""
    side = _shuffle(seen.fields, "downsample_ratio")
    features = replace(seen, patches=_selected(seen, "default"), special=0)
    wide, tokens = _side_by_side(features, side)
    return Projected((_norm(layer_norm(wide)), *_two(wide, seen.out, seen.out)), tokens)


def idefics(seen: Seen) -> Projected:
    """Idefics3 and SmolVLM: neighbouring patches side by side, one matrix."""
    wide, tokens = _side_by_side(seen, seen.fields.size("scale_factor"))
    return Projected((_matrix("linear", wide, seen.out),), tokens)


def llama_4(seen: Seen) -> Projected:
    """Llama 4: neighbouring patches side by side, an MLP in the tower, one matrix."""
    wide, tokens = _side_by_side(seen, _shuffle(seen.vision, "pixel_shuffle_ratio"))
    between, outputs = (
        seen.vision.size("projector_input_dim"),
        seen.vision.size("projector_output_dim"),
    )
    if seen.vision.size("intermediate_size") != wide:
        raise seen.vision.error(
            "intermediate_size", f"must be {wide}, the width of the shuffled patches"
        )
    if seen.vision.size("vision_output_dim") != outputs:
        raise seen.vision.contradiction(
            "must be equal", "vision_output_dim", "projector_output_dim"
        )
    terms = (
        _matrix("fc1", wide, between),
        _matrix("fc2", between, outputs),
        _matrix("linear_1", outputs, seen.out),
    )
    return Projected(terms, tokens)


def mistral(seen: Seen) -> Projected:
    """Mistral 3: neighbouring patches normalised and merged, two linear layers."""
    merged = seen.fields.size("spatial_merge_size") ** 2
    bias = seen.fields.flag("multimodal_projector_bias", default=False)
    terms = (
        _norm(seen.hidden),
        _matrix("merge", merged * seen.hidden, seen.hidden),
        *_two(_layers(seen.fields, -1) * seen.hidden, seen.out, seen.out, bias),
    )
    return Projected(terms, 0, merged)


def glm(seen: Seen) -> Projected:
    """GLM-4V: neighbouring patches merged by a convolution, one matrix, normalised, a gated block."""
    merged, width = (
        seen.vision.size("spatial_merge_size") ** 2,
        seen.vision.size("intermediate_size"),
    )
    if seen.vision.size("out_hidden_size") != seen.out:
        raise seen.vision.error("out_hidden_size", f"contradicts the language model's {seen.out}")
    terms = (
        _matrix("downsample", merged * seen.hidden, seen.out, True),
        _matrix("linear", seen.out, seen.out),
        _norm(layer_norm(seen.out)),
        _matrix("gate_proj", seen.out, width),
        _matrix("up_proj", seen.out, width),
        _matrix("down_proj", width, seen.out),
    )
    return Projected(terms, 0, merged)


def kimi(seen: Seen) -> Projected:
    """Kimi K2.5: patches normalised, neighbours side by side, two linear layers."""
    sides = seen.vision.sizes("merge_kernel_size")
    merged, normed = prod(sides), seen.fields.size("projection_hidden_size")
    if normed != seen.hidden:
        raise seen.fields.error("projection_hidden_size", f"contradicts the tower's {seen.hidden}")
    wide = merged * seen.hidden
    return Projected((_norm(layer_norm(normed)), *_two(wide, wide, seen.out)), 0, merged)


def lfm(seen: Seen) -> Projected:
    """LFM2-VL: neighbouring patches side by side, normalised or not, two linear layers."""
    merged = seen.fields.size("downsample_factor") ** 2
    wide, bias = merged * seen.hidden, seen.fields.flag("projector_bias", default=True)
    normed = seen.fields.flag("projector_use_layernorm", default=True)
    between = seen.fields.size("projector_hidden_size")
    terms = (_norm(normed * layer_norm(wide)), *_two(wide, between, seen.out, bias))
    return Projected(terms, 0, merged)


def gemma_4(seen: Seen) -> Projected:
    """Gemma 4: the mean over neighbouring patches, taken as a product with a matrix of ones, and one matrix."""
    for unused in ("attention_bias", "global_head_dim"):  # the class does not read these
        seen.vision.has(unused)
    merged = seen.vision.size("pooling_kernel_size") ** 2
    extent = Extent(Per.PAIR, "image", merged=merged)
    mean = Term("projector.mean", Part.CORE, extent, flops=2 * seen.hidden, in_layers=False)
    return Projected((mean, _matrix("linear", seen.hidden, seen.out)), 0, merged)
