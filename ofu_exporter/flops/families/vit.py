"""Vision transformers: ViT and DeiT.

Per image of n patches: patches (p^2 c) h per patch, layers over n tokens and one more for each special token (ViT
[CLS], DeiT [CLS] and distillation), every pair, head on one token per image. Sources: ViT (arXiv:2010.11929), DeiT
(arXiv:2012.12877), Casson, "Transformer FLOPs" (2023), appendix C, and the model classes in Hugging Face transformers.
Streams: `image` are the tokens, `patches` those that come from pixels; both follow from the configuration, so a batch
is a number of images.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import layer_norm, outside, vector
from ofu_exporter.flops.shapes import Layer, Mlp, encoder
from ofu_exporter.flops.terms import Extent, Part, Per, Term, merge

IMAGE, PATCHES = "image", "patches"


class VitPlan(NamedTuple):
    """What the class of an architecture fixes and no field of the configuration says."""

    special: int = 1
    """Tokens in addition to the patches, such as [CLS]."""
    heads: int = 0
    """Number of classifiers over id2label."""
    pooler: bool = False
    """Whether the first token is projected once more (ViTModel)."""


ARCHITECTURES = {
    "ViTForImageClassification": VitPlan(heads=1),
    "ViTModel": VitPlan(pooler=True),
    "DeiTForImageClassification": VitPlan(special=2, heads=1),
    "DeiTForImageClassificationWithTeacher": VitPlan(special=2, heads=2),
}


def read(fields: Fields, architecture: str) -> Model:
    plan = ARCHITECTURES[architecture]
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    bias = fields.flag("qkv_bias", default=True)
    heads = "num_attention_heads"
    attention = hf_config.multi_head(fields, hidden, heads, bias=bias, out_bias=True)
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    image, patch = _sides(fields, "image_size"), _sides(fields, "patch_size")
    if any(whole % part for whole, part in zip(image, patch, strict=True)):
        raise fields.contradiction("the patches must divide the image", "image_size", "patch_size")
    patches, pixels = prod(image) // prod(patch), prod(patch) * fields.size("num_channels")
    terms = (
        # A linear layer over the pixels of a patch.
        outside("patch_embedding", Part.PROJECTION, pixels, hidden, Extent(stream=PATCHES)),
        vector("embeddings", (patches + 2 * plan.special) * hidden, in_layers=False),
        vector("norms", layer_norm(hidden), in_layers=False),
        *encoder(hidden, (Layer(attention, block, 2 * layer_norm(hidden)),) * number, IMAGE),
        *_head(fields, plan, hidden),
    )
    return Model(
        "vit",
        architecture,
        terms=merge(terms),
        layers=number,
        counted=(IMAGE,),
        lengths={IMAGE: patches + plan.special, PATCHES: patches},
        streams=(),
        softmax_heads=attention.heads * number,
    )


def _sides(fields: Fields, name: str) -> tuple[int, ...]:
    """Height and width: one size for both, or a list of the two."""
    return fields.sizes(name, sides=2) if fields.is_list(name) else (fields.size(name),) * 2


def _head(fields: Fields, plan: VitPlan, hidden: int) -> Iterator[Term]:
    names = ("classifier_1", "classifier_2") if plan.heads == 2 else ("classifier",) * plan.heads
    outputs = {name: hf_config.labels(fields) for name in names}
    if plan.pooler:
        outputs["pooler"] = fields.size("pooler_output_size", default=hidden)
    for name, number in outputs.items():
        yield outside(name, Part.HEAD, hidden, number, Extent(Per.SEQUENCE, IMAGE))
