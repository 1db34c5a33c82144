"""Pairs of an image and a text: CLIP and SigLIP, and their text towers alone.

A vision tower over each image, a text tower over each text (CLIP: each token sees its past; SigLIP: all), a projection
of each, and the product of every image with every text of the step. Sources: CLIP (arXiv:2103.00020), SigLIP
(arXiv:2303.15343), and the model classes in Hugging Face transformers. Stream: `tokens` of a text; the image of each
sample is as large as the configuration says. The towers `vision` and `text` can be frozen apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ofu_exporter.flops.encoder_stack import stack, useful
from ofu_exporter.flops.families import vit
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import embedding, linear, vector
from ofu_exporter.flops.shapes import GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import PER_SEQUENCE, TOKENS, Extent, Part, Per, Term


@dataclass(frozen=True, slots=True)
class PairPlan:
    """What the class of an architecture fixes and no field of the configuration says."""

    causal: bool
    """Whether a token of the text sees its past only."""
    head: bool
    """Whether the text has a head of its own with a bias (SigLIP), or both towers have a projection (CLIP)."""
    vision: str = ""
    """The tower of the image; none = only the text tower."""


ARCHITECTURES = {
    "CLIPModel": PairPlan(True, False, "CLIPVisionModel"),
    "CLIPTextModel": PairPlan(True, False),
    "SiglipModel": PairPlan(False, True, "SiglipVisionModel"),
    "SiglipTextModel": PairPlan(False, True),
}

NEUTRAL = vit.NEUTRAL | listed("logit_bias_init_value projection_dim projection_size vocab_size")
VISION, TEXT = "vision", "text"


def read(fields: Fields, architecture: str) -> Model:
    """A text tower, alone or with a vision tower."""
    plan = ARCHITECTURES[architecture]
    if not plan.vision:
        terms, layers = _text(fields, plan)
        return Model("pairs", architecture, terms=useful(terms), layers=layers)
    text, vision = fields.inner("text_config"), fields.inner("vision_config")
    terms, layers = _text(text, plan)
    seen = vit.tower(vision, replace(vit.ARCHITECTURES[plan.vision], colours=3))
    image = [*seen.terms, *_joined(fields, plan, seen.hidden, text.size("hidden_size"))]
    return Model(
        "pairs",
        architecture,
        terms=(
            *(replace(term, tower=VISION, name=f"vision.{term.name}") for term in useful(image)),
            *(replace(term, tower=TEXT, name=f"text.{term.name}") for term in useful(terms)),
        ),
        towers=(VISION, TEXT),
        layers=layers + seen.layers,
        lengths={vit.IMAGE: seen.patches + seen.special, vit.PATCHES: seen.patches},
    )


def _text(fields: Fields, plan: PairPlan) -> tuple[list[Term], int]:
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    heads = fields.size("num_attention_heads")
    if hidden % heads:
        raise fields.contradiction("the heads must divide", "hidden_size", "num_attention_heads")
    mixer = GroupedAttention(heads, heads, hidden // heads, qkv_bias=True, out_bias=True)
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    layers = (Layer(mixer, block, 2 * layer_norm(hidden)),) * number
    terms = [
        embedding("embed_tokens", fields.size("vocab_size"), hidden),
        embedding("embed_positions", fields.size("max_position_embeddings"), hidden),
        vector("final_norm", layer_norm(hidden), in_layers=False),
        *stack(hidden, layers, TOKENS, causal=plan.causal),
    ]
    if plan.head:
        outputs = fields.size("projection_size", default=hidden)
        terms.append(_once("head", hidden, outputs, PER_SEQUENCE, True))
    return terms, number


def _once(name: str, inputs: int, outputs: int, extent: Extent, bias: bool = False) -> Term:
    return linear(name, Part.HEAD, inputs, outputs, bias=bias, extent=extent, in_layers=False)


def _joined(fields: Fields, plan: PairPlan, seen: int, read: int) -> Iterator[Term]:
    """The projections of both towers, and the product of every image with every text."""
    image = Extent(Per.SEQUENCE, vit.IMAGE)
    width = seen
    if not plan.head:
        width = fields.size("projection_dim")
        yield _once("projection", seen, width, image)
        yield _once("text_projection", read, width, PER_SEQUENCE)
    yield Term("logits", Part.CORE, Extent(Per.SAMPLES), flops=2 * width, in_layers=False)
    yield vector("logit_scale", 1 + plan.head, in_layers=False)
