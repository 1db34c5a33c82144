"""Vision transformers, with and without a [CLS] token.

Per image of n patches: patches (p^2 c) h per patch, layers over n tokens and one more for each special token (ViT
[CLS], DeiT [CLS] and distillation), every pair, head on one token per image. Sources: ViT (arXiv:2010.11929), DeiT
(arXiv:2012.12877), CLIP (arXiv:2103.00020), SigLIP (arXiv:2303.15343), Casson, "Transformer FLOPs" (2023),
appendix C, and the model classes in Hugging Face transformers. Streams: `image` are the tokens, `patches` those that
come from pixels; both follow from the configuration, so a batch is a number of images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.encoder_stack import stack, useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.shapes import GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import Extent, Part, Per, Term

IMAGE, PATCHES = "image", "patches"


@dataclass(frozen=True, slots=True)
class VitPlan:
    """What the class of an architecture fixes and no field of the configuration says."""

    special: int = 1
    """Tokens beside the patches: [CLS] and the like."""
    patch_bias: bool = True
    pre_norm: bool = False
    """Whether the embeddings are normalised before the first layer (CLIP)."""
    heads: int = 0
    """Number of classifiers over id2label."""
    pooler: bool = False
    """Whether the first token is projected once more (ViTModel)."""
    attention_pool: bool = False
    """Whether a learned query attends to all tokens at the end (SigLIP)."""


ARCHITECTURES = {
    "ViTForImageClassification": VitPlan(heads=1),
    "ViTModel": VitPlan(pooler=True),
    "DeiTForImageClassification": VitPlan(special=2, heads=1),
    "DeiTForImageClassificationWithTeacher": VitPlan(special=2, heads=2),
    "CLIPVisionModel": VitPlan(patch_bias=False, pre_norm=True),
    "SiglipVisionModel": VitPlan(special=0, attention_pool=True),
}

NEUTRAL = listed(
    """
    encoder_stride logit_scale_init_value pooler_act pooler_output_size projection_dim
    """
)


def read(fields: Fields, architecture: str) -> Model:
    """A vision transformer."""
    plan = ARCHITECTURES[architecture]
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    heads, patches = fields.size("num_attention_heads"), _patches(fields)
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "hidden_size", "num_attention_heads")
    bias = fields.flag("qkv_bias", default=True)
    attention = GroupedAttention(heads, heads, hidden // heads, qkv_bias=bias, out_bias=True)
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    layers = (Layer(attention, block, 2 * layer_norm(hidden)),) * number
    tokens = patches + plan.special
    vectors = plan.special + tokens  # special tokens, and a position for every token
    terms = (
        _embedding(fields, plan, hidden),
        vector("embeddings", vectors * hidden, in_layers=False),
        vector("norms", (1 + plan.pre_norm) * layer_norm(hidden), in_layers=False),
        *stack(hidden, layers, IMAGE),
        *_pool(fields, plan, hidden, layers[0]),
        *_head(fields, plan, hidden),
    )
    return Model(
        "vit",
        architecture,
        terms=useful(terms),
        layers=number,
        counted=(IMAGE,),
        lengths={IMAGE: tokens, PATCHES: patches},
        streams=(),
        softmax_heads=heads * number,
    )


def _patches(fields: Fields) -> int:
    image, patch = fields.size("image_size"), fields.size("patch_size")
    if image % patch:
        raise fields.contradiction("the patches must divide the image", "image_size", "patch_size")
    return (image // patch) ** 2


def _embedding(fields: Fields, plan: VitPlan, hidden: int) -> Term:
    pixels = fields.size("patch_size") ** 2 * fields.size("num_channels")
    extent = Extent(stream=PATCHES)
    return linear(
        "patch_embedding",
        Part.PROJECTION,
        pixels,
        hidden,
        bias=plan.patch_bias,
        extent=extent,
        in_layers=False,
    )


def _pool(fields: Fields, plan: VitPlan, hidden: int, layer: Layer) -> Iterator[Term]:
    """SigLIP's head: one learned query per image attends to all tokens, then an MLP on the result."""
    if not plan.attention_pool or not fields.flag("vision_use_head", default=True):
        return
    block, image, head = layer.feed_forward, Extent(Per.SEQUENCE, IMAGE), Part.HEAD
    assert block is not None
    token = Extent(stream=IMAGE)
    yield vector("pool.probe", hidden + layer_norm(hidden), in_layers=False)
    yield linear("pool.q_proj", head, hidden, hidden, bias=True, extent=image, in_layers=False)
    yield linear("pool.kv_proj", head, hidden, 2 * hidden, bias=True, extent=token, in_layers=False)
    # One query: as many pairs as tokens.
    yield Term("pool.core", Part.CORE, token, flops=4 * hidden, in_layers=False)
    yield linear("pool.o_proj", head, hidden, hidden, bias=True, extent=image, in_layers=False)
    yield linear(
        "pool.up_proj", head, hidden, block.width, bias=True, extent=image, in_layers=False
    )
    yield linear(
        "pool.down_proj", head, block.width, hidden, bias=True, extent=image, in_layers=False
    )


def _head(fields: Fields, plan: VitPlan, hidden: int) -> Iterator[Term]:
    image = Extent(Per.SEQUENCE, IMAGE)
    if plan.pooler:
        yield linear("pooler", Part.HEAD, hidden, hidden, bias=True, extent=image, in_layers=False)
    for index in range(plan.heads):
        name = "classifier" if plan.heads == 1 else f"classifier_{index + 1}"
        yield linear(
            name,
            Part.HEAD,
            hidden,
            hf_config.labels(fields),
            bias=True,
            extent=image,
            in_layers=False,
        )
