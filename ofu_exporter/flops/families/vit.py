"""Vision transformers.

Per image of n patches: patches (p^2 c) h per patch, layers over n tokens and one more for each special token (ViT
[CLS], DeiT [CLS] and distillation, registers), every pair, head on one token per image. Sources: ViT
(arXiv:2010.11929), DeiT (arXiv:2012.12877), CLIP (arXiv:2103.00020), SigLIP (arXiv:2303.15343), DINOv2
(arXiv:2304.07193, registers arXiv:2309.16588), DINOv3 (arXiv:2508.10104), Casson, "Transformer FLOPs" (2023), appendix
C, and the model classes in Hugging Face transformers. Streams: `image` are the tokens, `patches` those that come from
pixels; both follow from the configuration, so a batch is a number of images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.encoder_stack import stack, useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import linear, vector
from ofu_exporter.flops.shapes import GroupedAttention, Layer, Mlp, Norms, layer_norm, rms_norm
from ofu_exporter.flops.terms import Extent, Part, Per, Term

IMAGE, PATCHES = "image", "patches"


@dataclass(frozen=True, slots=True)
class VitPlan:
    """What the class of an architecture fixes and no field of the configuration says."""

    special: int = 1
    """Tokens in addition to the patches, such as [CLS]."""
    patch_bias: bool = True
    pre_norm: bool = False
    """Whether the embeddings are normalised before the first layer (CLIP)."""
    heads: int = 0
    """Number of classifiers over id2label."""
    classified: int = 1
    """Width of a classifier's input, in hidden sizes: 2 for [CLS] and the mean of the patches (DINOv2)."""
    pooler: bool = False
    """Whether the first token is projected once more (ViTModel)."""
    attention_pool: bool = False
    """Whether a learned query attends to all tokens at the end (SigLIP)."""
    norm: Norms = layer_norm
    gated: bool = False
    bias: bool = True
    """Whether linear layers of the blocks have biases."""
    out_bias: bool | None = None
    """Whether the output projection has a bias; None = as `bias` says."""
    key_bias: bool = True
    positions: bool = True
    """Whether positions are learned; otherwise they are rotary."""
    scaled: int = 0
    """Vectors of the hidden size per layer that scale what a block adds."""
    cut: bool = False
    """Whether pixels that fill no patch are left out (SigLIP: 384 pixels in patches of 14)."""
    nested: bool = False
    """Whether the tower's configuration is inside one that also has a text."""
    mask: bool = False
    """Whether there is a token for masked patches if use_mask_token does not say."""


DINO = VitPlan(scaled=2, mask=True)
DINO_V3 = VitPlan(scaled=2, mask=True, key_bias=False, positions=False)
CLIP = VitPlan(patch_bias=False, pre_norm=True)
SIGLIP = VitPlan(special=0, attention_pool=True, cut=True)
ARCHITECTURES = {
    "ViTForImageClassification": VitPlan(heads=1),
    "ViTModel": VitPlan(pooler=True),
    "DeiTForImageClassification": VitPlan(special=2, heads=1),
    "DeiTForImageClassificationWithTeacher": VitPlan(special=2, heads=2),
    "CLIPVisionModel": CLIP,
    "CLIPForImageClassification": replace(CLIP, heads=1, nested=True),
    "SiglipVisionModel": SIGLIP,
    "SiglipForImageClassification": replace(SIGLIP, heads=1, nested=True),
    "Dinov2Model": DINO,
    "Dinov2ForImageClassification": replace(DINO, heads=1, classified=2),
    "Dinov2WithRegistersModel": DINO,
    "Dinov2WithRegistersForImageClassification": replace(DINO, heads=1, classified=2),
    "DINOv3ViTModel": DINO_V3,
}

NEUTRAL = listed(
    """
    apply_layernorm drop_path_rate encoder_stride image_size is_causal layerscale_value logit_scale_init_value
    out_features out_indices pooler_act pos_embed_jitter pos_embed_rescale pos_embed_shift
    logit_bias_init_value projection_dim reshape_hidden_states stage_names text_config vision_use_head
    """
)


NORMS: dict[str, Norms] = {"layer_norm": layer_norm, "rms_norm": rms_norm}


class Tower(NamedTuple):
    """A vision transformer without its classifier."""

    terms: tuple[Term, ...]
    hidden: int
    layers: int
    heads: int
    patches: int
    """Patches of one image."""
    special: int


def read(fields: Fields, architecture: str) -> Model:
    """A vision transformer."""
    plan = ARCHITECTURES[architecture]
    made = tower(fields.inner("vision_config") if plan.nested else fields, plan)
    return Model(
        "vit",
        architecture,
        terms=useful((*made.terms, *_head(fields, plan, made.hidden))),
        layers=made.layers,
        counted=(IMAGE,),
        lengths={IMAGE: made.patches + made.special, PATCHES: made.patches},
        streams=(),
        softmax_heads=made.heads * made.layers,
    )


def tower(fields: Fields, plan: VitPlan) -> Tower:
    """The tower of a configuration."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    if fields.has("norm_type"):
        plan = replace(plan, norm=NORMS[fields.word("norm_type", NORMS)])
    layer = block(fields, plan, hidden)
    assert isinstance(layer.mixer, GroupedAttention)
    patches = _patches(fields, plan)
    special = plan.special + fields.size("num_register_tokens", default=0, least=0)
    rows = _position_rows(fields, plan, patches)
    masked = fields.flag("use_mask_token", default=plan.mask)
    terms = (
        patch_embedding(fields, plan, hidden),
        vector("embeddings", (special + rows + masked) * hidden, in_layers=False),
        vector("norms", (1 + plan.pre_norm) * plan.norm(hidden), in_layers=False),
        *stack(hidden, (layer,) * number, IMAGE),
        *_pool(fields, plan, hidden, layer),
    )
    return Tower(useful(terms), hidden, number, layer.mixer.heads, patches, special)


def _position_rows(fields: Fields, plan: VitPlan, patches: int) -> int:
    """Rows of the table of positions: one per token where they are learned."""
    learned = fields.flag("use_absolute_position_embeddings", default=plan.positions)
    return (patches + plan.special) * learned


def block(fields: Fields, plan: VitPlan, hidden: int) -> Layer:
    """One layer."""
    heads = fields.size("num_attention_heads")
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "hidden_size", "num_attention_heads")
    bias = fields.flag("qkv_bias", default=plan.bias)
    head_dim = fields.size("head_dim", default=hidden // heads)
    if head_dim != hidden // heads:
        raise fields.contradiction("the heads must fill the hidden size", "head_dim", "hidden_size")
    added = 2 * hidden if fields.flag("use_qk_norm", default=False) else 0
    output = plan.bias if plan.out_bias is None else plan.out_bias
    values = fields.flag("value_bias", default=bias)
    if fields.flag("query_bias", default=bias) != values:
        raise fields.contradiction("must be equal", "query_bias", "value_bias")
    attention = GroupedAttention(
        heads,
        fields.size("num_key_value_heads", default=heads),
        head_dim,
        qkv_bias=values,
        key_bias=fields.flag("key_bias", default=plan.key_bias),
        out_bias=fields.flag("proj_bias", default=output),
        norm_parameters=added,
    )
    gated = fields.flag("use_swiglu_ffn", default=fields.flag("use_gated_mlp", default=plan.gated))
    wide, mlp_bias = (
        _width(fields, hidden, gated),
        fields.flag("mlp_bias", default=plan.bias),
    )
    feed_forward = Mlp(wide, gated, bias=mlp_bias)
    more = plan.scaled * hidden
    return Layer(attention, feed_forward, 2 * plan.norm(hidden) + more)


def _width(fields: Fields, hidden: int, gated: bool) -> int:
    """intermediate_size, or mlp_ratio times the hidden size; two thirds of that in a gated DINOv2."""
    if not fields.has("mlp_ratio"):
        return fields.size("intermediate_size")
    width = fields.size("mlp_ratio") * hidden
    return (int(width * 2 / 3) + 7) // 8 * 8 if gated else width


def _patches(fields: Fields, plan: VitPlan) -> int:
    image, patch = sides(fields, "image_size"), sides(fields, "patch_size")
    rest = any(whole % part for whole, part in zip(image, patch, strict=True))
    if rest and not plan.cut:
        raise fields.contradiction("the patches must divide the image", "image_size", "patch_size")
    return (image[0] // patch[0]) * (image[1] // patch[1])


def sides(fields: Fields, name: str) -> tuple[int, int]:
    """Height and width: one size for both, or a list of the two."""
    found = fields.sizes(name) if fields.is_list(name) else (fields.size(name),) * 2
    if len(found) != 2:
        raise fields.error(name, "is not the height and the width")
    return found[0], found[1]


def patch_embedding(fields: Fields, plan: VitPlan, hidden: int) -> Term:
    """A linear layer over the pixels of a patch."""
    height, width = sides(fields, "patch_size")
    pixels = height * width * fields.size("num_channels")
    pixels *= fields.size("temporal_patch_size", default=1)
    return linear(
        "patch_embedding",
        Part.PROJECTION,
        pixels,
        hidden,
        bias=plan.patch_bias,
        extent=Extent(stream=PATCHES),
        in_layers=False,
    )


def _pool(fields: Fields, plan: VitPlan, hidden: int, layer: Layer) -> Iterator[Term]:
    """SigLIP's head: one learned query per image attends to all tokens, then an MLP on the result."""
    if not plan.attention_pool or not fields.flag("vision_use_head", default=True):
        return
    behind, image, head = layer.feed_forward, Extent(Per.SEQUENCE, IMAGE), Part.HEAD
    assert behind is not None
    token = Extent(stream=IMAGE)
    yield vector("pool.probe", hidden + layer_norm(hidden), in_layers=False)
    yield linear("pool.q_proj", head, hidden, hidden, bias=True, extent=image, in_layers=False)
    yield linear("pool.kv_proj", head, hidden, 2 * hidden, bias=True, extent=token, in_layers=False)
    # One query: as many pairs as tokens.
    yield Term("pool.core", Part.CORE, token, flops=4 * hidden, in_layers=False)
    yield linear("pool.o_proj", head, hidden, hidden, bias=True, extent=image, in_layers=False)
    yield linear(
        "pool.up_proj", head, hidden, behind.width, bias=True, extent=image, in_layers=False
    )
    yield linear(
        "pool.down_proj", head, behind.width, hidden, bias=True, extent=image, in_layers=False
    )


def _head(fields: Fields, plan: VitPlan, hidden: int) -> Iterator[Term]:
    image, outputs = Extent(Per.SEQUENCE, IMAGE), fields.size("pooler_output_size", default=hidden)
    if plan.pooler:
        yield linear("pooler", Part.HEAD, hidden, outputs, bias=True, extent=image, in_layers=False)
    for index in range(plan.heads):
        name = "classifier" if plan.heads == 1 else f"classifier_{index + 1}"
        yield linear(
            name,
            Part.HEAD,
            plan.classified * hidden,
            hf_config.labels(fields),
            bias=True,
            extent=image,
            in_layers=False,
        )
