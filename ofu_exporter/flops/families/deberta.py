"""DeBERTa 1, 2 and 3: encoders whose attention also has terms for the distance between two tokens.

Per layer, in addition to 4 h^2 + 2 h f per token and 2 h per pair: each query meets the 2 S relative positions (c2p),
and each relative position meets each key (p2c), 2 S h per token each. The table of positions goes through the
matrices of queries and keys in every layer, once per pass over a micro-batch of any size; the count has it once per
step. In the first version S is the sequence's own length, at most max_relative_positions. Sources: DeBERTa
(arXiv:2006.03654), DeBERTaV3 (arXiv:2111.09543), and the model classes in Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ofu_exporter.flops.encoder_stack import stack, useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import embedding, linear, vector
from ofu_exporter.flops.shapes import GroupedAttention, Layer, Mlp, layer_norm
from ofu_exporter.flops.terms import Extent, Part, Per, Term

NEUTRAL = listed(
    "conv_act legacy padding_idx pooler_hidden_act pooler_hidden_size tie_word_embeddings"
)
STEP = Extent(Per.STEP)
SIDES = (("c2p", "key"), ("p2c", "query"))
"""The two terms of distances, and the matrix that the table of positions goes through."""


def read(fields: Fields, architecture: str) -> Model:
    """An encoder with relative positions."""
    make_positions, key_bias = ARCHITECTURES[architecture]
    if fields.flag("talking_head", default=False):
        raise fields.error("talking_head", "true is not known; known: false")
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    heads = fields.size("num_attention_heads")
    head_dim = fields.size("attention_head_size", default=hidden // heads)
    if heads * head_dim != hidden:
        raise fields.contradiction("the heads must fill", "hidden_size", "num_attention_heads")
    mixer = GroupedAttention(
        heads, heads, head_dim, qkv_bias=True, out_bias=True, key_bias=key_bias
    )
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    layer = Layer(mixer, block, 2 * layer_norm(hidden))
    terms = [
        *_embeddings(fields, hidden),
        *stack(hidden, (layer,) * number),
        *make_positions(fields, hidden, number),
        *_convolution(fields, hidden),
    ]
    if architecture.endswith("MaskedLM"):
        terms += _head(fields, hidden)
    return Model("deberta", architecture, terms=useful(terms), layers=number)


def _embeddings(fields: Fields, hidden: int) -> Iterator[Term]:
    width = fields.size("embedding_size", default=hidden)
    if width != hidden:
        raise fields.error("embedding_size", f"other than {hidden} is not known")
    rows = fields.size("vocab_size") + fields.size("type_vocab_size", default=0, least=0)
    if fields.flag("position_biased_input", default=True):
        rows += fields.size("max_position_embeddings")
    yield embedding("embed_tokens", rows, hidden)
    yield vector("embed_norm", layer_norm(hidden), in_layers=False)


def _span(fields: Fields) -> int:
    """The largest distance that the table of positions has."""
    span = fields.integer("max_relative_positions", -1)
    return fields.size("max_position_embeddings") if span < 1 else span


def _kinds(fields: Fields) -> tuple[str, ...]:
    """Which terms of distances there are: a list, or words with | between them."""
    known = tuple(kind for kind, _ in SIDES)
    if fields.is_list("pos_att_type"):
        return fields.words("pos_att_type", known)
    return fields.choices("pos_att_type", known)


def _positions_of_the_first(fields: Fields, hidden: int, number: int) -> Iterator[Term]:
    """The same for the first version: each layer has its own matrices, and there is a position for each token."""
    span, kinds = _span(fields), _kinds(fields)
    if not fields.flag("relative_attention", default=False):
        return
    yield embedding("embed_distances", 2 * span, hidden)
    for kind, name in SIDES:
        if kind not in kinds:
            continue
        once = linear(
            f"distances.{name}_proj",
            Part.PROJECTION,
            hidden,
            hidden,
            times=number,
            bias=kind == "p2c",
            extent=Extent(Per.STEP, most=span),
        )
        yield replace(once, flops=2 * once.flops, linear=None)
        # Every token meets the distances to the others on both sides.
        pairs = Extent(Per.PAIR, most=span)
        yield Term(f"attention.{kind}", Part.CORE, pairs, flops=2 * 2 * hidden * number)


def _positions(fields: Fields, hidden: int, number: int) -> Iterator[Term]:
    """The table of relative positions, its projections, and its products with queries and keys."""
    span, kinds = _span(fields), _kinds(fields)
    buckets = fields.integer("position_buckets", -1)
    span = buckets if buckets > 0 else span
    normed = "layer_norm" in fields.choices("norm_rel_ebd", ("none", "layer_norm"))
    shared = fields.flag("share_att_key", default=False)
    if not fields.flag("relative_attention", default=False):
        return
    rows = 2 * span
    yield embedding("embed_distances", rows, hidden)
    yield vector("distances.norm", normed * layer_norm(hidden), in_layers=False)
    for kind, name in SIDES:
        if kind not in kinds:
            continue
        once = linear(
            f"distances.{name}_proj", Part.PROJECTION, hidden, hidden, times=number, extent=STEP
        )
        own = 0 if shared else number * (hidden * hidden + hidden)
        yield replace(once, flops=rows * once.flops, parameters=own, active=own, linear=None)
        yield Term(f"attention.{kind}", Part.CORE, flops=2 * rows * hidden * number)


def _convolution(fields: Fields, hidden: int) -> Iterator[Term]:
    """A convolution over neighbouring tokens in parallel to the first layer."""
    kernel, groups = (
        fields.size("conv_kernel_size", default=0, least=0),
        fields.size("conv_groups", default=1),
    )
    if kernel:
        inputs = hidden // groups * kernel
        yield linear("conv", Part.CONVOLUTION, inputs, hidden, bias=True, in_layers=False)
        yield vector("conv.norm", layer_norm(hidden), in_layers=False)


def _head(fields: Fields, hidden: int) -> Iterator[Term]:
    if not fields.flag("legacy", default=True):
        raise fields.error("legacy", "false is not known; known: true")
    vocab, tied = fields.size("vocab_size"), fields.flag("tie_word_embeddings", default=True)
    yield linear("lm_head.dense", Part.HEAD, hidden, hidden, bias=True, in_layers=False)
    yield vector("lm_head.norm", layer_norm(hidden), in_layers=False)
    head = linear("lm_head", Part.HEAD, hidden, vocab, bias=True, in_layers=False)
    if tied:
        yield replace(head, parameters=vocab, active=vocab)
        return
    yield head
    yield vector("lm_head.second_bias", vocab, in_layers=False)


Positions = Callable[[Fields, int, int], Iterator[Term]]
FIRST: tuple[Positions, bool] = (_positions_of_the_first, False)
LATER: tuple[Positions, bool] = (_positions, True)
ARCHITECTURES: dict[str, tuple[Positions, bool]] = {
    "DebertaForMaskedLM": FIRST,
    "DebertaModel": FIRST,
    "DebertaV2ForMaskedLM": LATER,
    "DebertaV2Model": LATER,
}
"""Who makes the terms of positions, and whether keys have biases."""
