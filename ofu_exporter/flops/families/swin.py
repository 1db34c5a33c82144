"""Swin: a vision transformer whose attention stays in windows, and whose stages merge neighbouring patches.

Stage s has patches of 2^s x 2^s neighbours, and 2^s times the width of the first stage. Per image: projections and
pairs of whole windows (the image is padded to them), MLPs of the patches, a merger of four patches between stages.
Sources: Swin (arXiv:2103.14030), and the model classes in Hugging Face transformers. Everything follows from the
configuration, so a batch is a number of images; a count per token is one per image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.encoder_stack import useful
from ofu_exporter.flops.families.vit import sides
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.shapes import layer_norm
from ofu_exporter.flops.terms import Extent, Part, Per, Term

ARCHITECTURES = ("SwinForImageClassification", "SwinModel")

NEUTRAL = listed(
    """
    drop_path_rate encoder_stride hidden_size num_layers out_features out_indices path_norm stage_names
    """
)
IMAGE = "image"
PER_IMAGE = Extent(Per.SEQUENCE, IMAGE)


class Stage(NamedTuple):
    """One stage: its width, heads and layers, and the patches per side of an image."""

    number: int
    hidden: int
    heads: int
    layers: int
    sides: tuple[int, int]
    window: int


def read(fields: Fields, architecture: str) -> Model:
    """A transformer of stages."""
    stages, patch = _stages(fields), sides(fields, "patch_size")
    first, last = stages[0], stages[-1]
    tokens = first.sides[0] * first.sides[1]
    absolute = fields.flag("use_absolute_embeddings", default=False)
    pixels = patch[0] * patch[1] * fields.size("num_channels")
    norms = layer_norm(first.hidden) + layer_norm(last.hidden) + absolute * tokens * first.hidden
    terms = [
        _per_image(_outside("patch_embedding", pixels, first.hidden), tokens),
        vector("norms", norms, in_layers=False),
        *(term for stage in stages for term in _stage(fields, stage)),
        *(_merger(stage) for stage in stages[:-1]),
        vector("mergers.norm", sum(layer_norm(4 * stage.hidden) for stage in stages[:-1])),
    ]
    if architecture.endswith("Classification"):
        labels = hf_config.labels(fields)
        terms.append(_per_image(_outside("classifier", last.hidden, labels), 1))
    return Model(
        "swin",
        architecture,
        terms=useful(terms),
        layers=sum(stage.layers for stage in stages),
        counted=(IMAGE,),
        lengths={IMAGE: 1},
        streams=(),
    )


def _stages(fields: Fields) -> list[Stage]:
    depths, heads = fields.sizes("depths"), fields.sizes("num_heads")
    if len(depths) != len(heads):
        raise fields.contradiction("one of each per stage", "depths", "num_heads")
    hidden, window = fields.size("embed_dim"), fields.size("window_size")
    image, patch = sides(fields, "image_size"), sides(fields, "patch_size")
    now, stages = (-(-image[0] // patch[0]), -(-image[1] // patch[1])), []
    for index, (layers, number) in enumerate(zip(depths, heads, strict=True)):
        if hidden % number:
            raise fields.error("num_heads", f"{number} must divide the width {hidden} of its stage")
        stages.append(Stage(index, hidden, number, layers, now, window))
        now, hidden = (-(-now[0] // 2), -(-now[1] // 2)), 2 * hidden
    return stages


def _per_image(term: Term, tokens: int) -> Term:
    """A linear layer on every token of an image."""
    linear = replace(term.linear, used=term.linear.used * tokens) if term.linear else None
    return replace(term, extent=PER_IMAGE, flops=term.flops * tokens, linear=linear)


def _stage(fields: Fields, stage: Stage) -> Iterator[Term]:
    hidden, layers, name = stage.hidden, stage.layers, f"stage{stage.number + 1}"
    window = min(stage.window, *stage.sides)
    rows, columns = (-(-side // window) * window for side in stage.sides)
    padded, tokens = rows * columns, stage.sides[0] * stage.sides[1]
    bias, part = fields.flag("qkv_bias", default=True), Part.PROJECTION
    width = int(fields.number("mlp_ratio", 4.0) * hidden)
    yield _per_image(
        linear(f"{name}.qkv_proj", part, hidden, 3 * hidden, times=layers, bias=bias), padded
    )
    pairs = padded * window**2
    yield Term(f"{name}.core", Part.CORE, PER_IMAGE, flops=4 * hidden * pairs * layers)
    yield _per_image(
        linear(f"{name}.o_proj", part, hidden, hidden, times=layers, bias=True), padded
    )
    for matrix, inputs, outputs in (("up_proj", hidden, width), ("down_proj", width, hidden)):
        term = linear(f"{name}.{matrix}", Part.MLP, inputs, outputs, times=layers, bias=True)
        yield _per_image(term, tokens)
    table = (2 * window - 1) ** 2 * stage.heads
    yield vector(f"{name}.vectors", layers * (2 * layer_norm(hidden) + table))


def _merger(stage: Stage) -> Term:
    """Four neighbours side by side, one matrix."""
    tokens = -(-stage.sides[0] // 2) * -(-stage.sides[1] // 2)
    hidden = stage.hidden
    return _per_image(linear("mergers.reduction", Part.PROJECTION, 4 * hidden, 2 * hidden), tokens)


def _outside(name: str, inputs: int, outputs: int) -> Term:
    return linear(name, Part.HEAD, inputs, outputs, bias=True, in_layers=False)
