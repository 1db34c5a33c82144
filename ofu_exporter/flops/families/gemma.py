"""Gemma 3n and 4: decoders whose last layers reuse keys and values of earlier layers, and whose layers have own inputs.

In addition to the blocks of a decoder, each layer has an input from its own table (width p; P for all layers
together), which costs h P + 2 h p per layer and token. Gemma 3n keeps n hidden states at once (AltUp: 2 h n + n^3 +
n^2 and n^2 h products of activations per layer, and 2 (n - 1) h^2 at the ends) and has a low-rank block beside
attention (Laurel). In Gemma 4, heads of the layers without a window are wider, their keys may be the values, and
there may be experts in addition to the MLP. Sources: Gemma 3n and Gemma 4 (model cards), AltUp (arXiv:2301.13310),
Laurel (arXiv:2411.07501), and the model classes in Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.encoder_stack import useful
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import embedding, linear, reused, vector
from ofu_exporter.flops.shapes import Decoder, Experts, FeedForward, GroupedAttention, Layer, Mlp
from ofu_exporter.flops.terms import Part, Term

NEUTRAL = listed(
    """
    activation_sparsity_pattern altup_active_idx altup_coef_clip altup_correct_scale
    """
)
NORMS = 4
"""Norms of the hidden size per layer: before and after attention and MLP."""


def read(fields: Fields, architecture: str) -> Model:
    """A decoder with shared keys and values."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    if fields.has("use_bidirectional_attention"):
        fields.word("use_bidirectional_attention", ("vision",))
    make_layers, make_extra = ARCHITECTURES[architecture]
    layers = tuple(
        replace(layer, norm_parameters=layer.norm_parameters + NORMS * hidden)
        for layer in make_layers(fields, hidden, number)
    )
    shape = Decoder(
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
        layers=layers,
        final_norm_parameters=hidden,
    )
    extra = make_extra(fields, hidden, number) if make_extra else ()
    terms = useful((*_layer_inputs(fields, hidden, number), *extra))
    return Model("gemma", architecture, shape, terms, layers=number)


def _attentions(
    fields: Fields, number: int, heads: list[tuple[int, int, int]], equal: bool
) -> list[GroupedAttention]:
    """The attention of each layer; the last num_kv_shared_layers have no keys and values of their own."""
    bias = fields.flag("attention_bias", default=False)
    windows = hf_config.windows(fields, number)
    if not fields.has("layer_types"):
        raise fields.error("layer_types", "is missing; it must be a list")
    shared = fields.size("num_kv_shared_layers", default=0, least=0)
    if shared > number:
        raise fields.contradiction(
            "more layers than there are", "num_kv_shared_layers", "num_hidden_layers"
        )
    made = []
    for index, (each, window) in enumerate(zip(heads, windows, strict=True)):
        own = index < number - shared
        one = GroupedAttention(*each, qkv_bias=bias, out_bias=bias, window=window)
        matrices = 1 if equal and window is None else 2
        norms = (1 + own) * one.head_dim
        made.append(replace(one, key_values=own * matrices, norm_parameters=norms))
    return made


def _layer_inputs(fields: Fields, hidden: int, number: int) -> Iterator[Term]:
    """The input of each layer: a table, a projection of the embedding, a gate and a projection back."""
    width = fields.size("hidden_size_per_layer_input", default=0, least=0)
    rows = fields.size("vocab_size_per_layer_input", default=0, least=0)
    if not width:
        return
    part = Part.PROJECTION
    yield embedding("layer_inputs.embed", rows, number * width)
    yield linear("layer_inputs.project", part, hidden, number * width, in_layers=False)
    yield linear("layer_inputs.gate", part, hidden, width, times=number)
    yield linear("layer_inputs.up_proj", part, width, hidden, times=number)
    yield vector("layer_inputs.norms", width + number * hidden)


def _gemma_3n(fields: Fields, hidden: int, number: int) -> list[Layer]:
    heads = [hf_config.heads(fields, hidden)] * number
    widths = hf_config.per_layer(fields, "intermediate_size", number)
    return [
        Layer(mixer, Mlp(width, gated=True))
        for mixer, width in zip(_attentions(fields, number, heads, False), widths, strict=True)
    ]


def _altup_and_laurel(fields: Fields, hidden: int, number: int) -> Iterator[Term]:
    states, rank, part = (
        fields.size("altup_num_inputs"),
        fields.size("laurel_rank"),
        Part.PROJECTION,
    )
    yield reused("altup.router", part, hidden, states, number, 2 * number)
    yield linear("altup.predict", part, states, states**2, times=number)
    yield linear("altup.correct", part, states, states, times=number)
    yield Term("altup.mix", Part.CORE, flops=2 * hidden * states**2 * number)
    ends = 2 * (states - 1)
    yield linear("altup.ends", part, hidden, hidden, times=ends, in_layers=False)
    yield linear("laurel.down_proj", part, hidden, rank, times=number)
    yield linear("laurel.up_proj", part, rank, hidden, times=number)
    yield vector("altup.vectors", 3 * hidden * number)


def _gemma_4(fields: Fields, hidden: int, number: int) -> list[Layer]:
    equal = fields.flag("attention_k_eq_v", default=False)
    mixers = _attentions(fields, number, _heads_of_layers(fields, hidden, number, equal), equal)
    wide = fields.flag("use_double_wide_mlp", default=False)
    width, experts = fields.size("intermediate_size"), _experts(fields)
    layers = []
    for mixer in mixers:
        block: FeedForward = Mlp(width * (1 + (wide and not mixer.key_values)), gated=True)
        more = 0
        if experts is not None:
            # The router has a scale per channel and per expert; the branch of experts has its own norms.
            more = hidden + experts.experts + 3 * hidden
            block = replace(experts, shared_width=block.width)
        layers.append(Layer(mixer, block, more))
    return layers


def _experts(fields: Fields) -> Experts | None:
    """The experts in addition to the MLP; every token also goes to the MLP."""
    if not fields.flag("enable_moe_block", default=False):
        return None
    number, used = fields.size("num_experts"), fields.size("top_k_experts")
    if used > number:
        raise fields.contradiction("more experts than there are", "num_experts", "top_k_experts")
    return Experts(number, used, fields.size("moe_intermediate_size"), gated=True)


def _heads_of_layers(
    fields: Fields, hidden: int, number: int, equal: bool
) -> list[tuple[int, int, int]]:
    """Heads, groups and head dimension of each layer: those without a window have others."""
    heads, groups, head_dim = hf_config.heads(fields, hidden)
    if fields.has("per_layer_config"):
        own = {int(index): size for index, size in fields.mapping("per_layer_config").items()}
    else:
        more = {"head_dim": fields.size("global_head_dim", default=512)}
        if equal and fields.has("num_global_key_value_heads"):
            more["num_key_value_heads"] = fields.size("num_global_key_value_heads")
        kinds = fields.items("layer_types")
        own = {index: more for index, kind in enumerate(kinds) if kind == hf_config.FULL}
    return [_changed(fields, (heads, groups, head_dim), own.get(each)) for each in range(number)]


def _changed(fields: Fields, sizes: tuple[int, int, int], own: object) -> tuple[int, int, int]:
    heads, groups, head_dim = sizes
    if own is None:
        return sizes
    known = {"head_dim": head_dim, "num_key_value_heads": groups}
    if not isinstance(own, Mapping) or not own.keys() <= known.keys():
        raise fields.error("per_layer_config", f"{own!r} is not known; known: {', '.join(known)}")
    inner = Fields(own, where="per_layer_config.")
    groups = inner.size("num_key_value_heads", default=groups)
    if heads % groups:
        raise fields.error("per_layer_config", f"{groups} groups must divide {heads} heads")
    return heads, groups, inner.size("head_dim", default=head_dim)


Layers = Callable[[Fields, int, int], list[Layer]]
Extra = Callable[[Fields, int, int], Iterator[Term]]
ARCHITECTURES: dict[str, tuple[Layers, Extra | None]] = {
    "Gemma3nForCausalLM": (_gemma_3n, _altup_and_laurel),
    "Gemma4ForCausalLM": (_gemma_4, None),
}
"""The functions that make an architecture's layers and its other terms."""
