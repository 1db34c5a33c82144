"""Makes the terms of the blocks that transformers consist of.

FLOPs of one forward pass, 2 per multiply-add: a linear layer of `inputs` by `outputs` is 2 * inputs * outputs per
token. Shapes: h hidden, q = heads * head_dim, kv = groups * head_dim, f feed-forward width, N state, V vocabulary.
Everything except matrix products, convolutions and scans (norms, activations, softmax, rotary positions, residuals)
is left out, as in every other counter of the field: it is under 1 % and not on the tensor cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from ofu_exporter.flops.products import core, embedding, linear, vector
from ofu_exporter.flops.recurrences import delta_net, mamba1, mamba2
from ofu_exporter.flops.shapes import (
    Decoder,
    Experts,
    GroupedAttention,
    Indexer,
    LatentAttention,
    Layer,
    Mamba1,
    Mamba2,
    Mixer,
    Mlp,
    grouped,
    layer_norm,
)
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Per, Term, merge


def grouped_attention(
    hidden: int, mixer: GroupedAttention, times: int, causal: bool
) -> Iterator[Term]:
    """h(q + 2 kv) + q h multiply-adds per token (+ h q with a gate), 2 q per pair.

    Groups make the projections of key and value smaller, but never the core, because every head attends.
    """
    query, key, head = mixer.query_dim, mixer.key_dim, Part.PROJECTION
    bias = mixer.qkv_bias
    yield linear("attention.q_proj", head, hidden, query, times=times, bias=bias)
    for name in ("k_proj", "v_proj"):
        yield linear(f"attention.{name}", head, hidden, key, times=times, bias=bias)
    if mixer.gated:
        yield linear("attention.gate_proj", head, hidden, query, times=times, bias=bias)
    within = f" (window {mixer.window})" if mixer.window else ""
    within = f" (chunk {mixer.chunk})" if mixer.chunk else within
    extent = Extent(Per.PAIR, causal=causal, window=mixer.window, chunk=mixer.chunk)
    yield core(query, query, times, extent, f"attention.core{within}")
    yield linear("attention.o_proj", head, query, hidden, times=times, bias=mixer.out_bias)
    yield vector("attention.norms", mixer.norm_parameters * times)


def latent_attention(
    hidden: int, mixer: LatentAttention, times: int, causal: bool
) -> Iterator[Term]:
    """Projections through ranks R_q and R_kv, and a core of 2 * heads * (nope + rope + value) per pair.

    DeepSeek-V2 (arXiv:2405.04434), eq. 9-19; the key's rope part is one head, shared by all.
    """
    rank, part, bias = mixer.query_rank, Part.PROJECTION, mixer.bias
    if rank is None:
        yield linear("attention.q_proj", part, hidden, mixer.query_dim, times=times)
    else:
        yield linear("attention.q_a_proj", part, hidden, rank, times=times, bias=bias)
        yield linear("attention.q_b_proj", part, rank, mixer.query_dim, times=times)
        yield vector("attention.norms", rank * times)
    rows = mixer.key_value_rank
    yield linear("attention.kv_a_proj", part, hidden, rows + mixer.rope_dim, times=times, bias=bias)
    yield vector("attention.norms", rows * times)
    heads = mixer.heads
    both = heads * (mixer.nope_dim + mixer.value_dim)
    yield linear("attention.kv_b_proj", part, rows, both, times=times)
    values, chosen = heads * mixer.value_dim, f" ({mixer.keys} keys)" if mixer.keys else ""
    # The number of best keys in a query's past is that of a window of the same size.
    extent = Extent(Per.PAIR, causal=causal, window=mixer.keys)
    yield core(mixer.query_dim, values, times, extent, f"attention.core{chosen}")
    yield linear("attention.o_proj", part, values, hidden, times=times, bias=bias)
    if mixer.indexer is not None:
        yield from indexer(hidden, rank or hidden, mixer.indexer, times, causal)


def indexer(hidden: int, rank: int, mixer: Indexer, times: int, causal: bool) -> Iterator[Term]:
    """R_q heads d + h (d + heads) multiply-adds per token, heads (d + 1) per pair, each of the past.

    DeepSeek-V3.2 (arXiv:2512.02556), eq. 1: one key of d for all heads, whose scores are weighed and summed.
    """
    wide, part = mixer.heads * mixer.head_dim, Part.PROJECTION
    yield linear("indexer.q_proj", part, rank, wide, times=times)
    yield linear("indexer.k_proj", part, hidden, mixer.head_dim, times=times)
    yield linear("indexer.weights", part, hidden, mixer.heads, times=times)
    yield core(wide, mixer.heads, times, Extent(Per.PAIR, causal=causal), "indexer.scores")
    yield vector("indexer.norm", layer_norm(mixer.head_dim) * times)


def mlp(hidden: int, block: Mlp, times: int) -> Iterator[Term]:
    """2 h f multiply-adds per token, 3 h f when gated."""
    for name in ("gate_proj", "up_proj")[not block.gated :]:
        yield linear(f"mlp.{name}", Part.MLP, hidden, block.width, times=times, bias=block.bias)
    yield linear("mlp.down_proj", Part.MLP, block.width, hidden, times=times, bias=block.bias)
    if block.activation_parameters:
        yield vector("mlp.activation", block.activation_parameters * times)


def experts(hidden: int, block: Experts, times: int) -> Iterator[Term]:
    """Router h E, routed c k l m, latent 2 h l, shared c h s multiply-adds per token.

    k of E experts of width m; c = 3 when gated, else 2; l = h unless the experts run on a latent: a token is
    projected to it once (not once per expert), and back. Shared experts stay at the hidden size.
    """
    part, bias = Part.EXPERTS, block.router_bias
    yield linear("router", Part.ROUTER, hidden, block.experts, times=times, bias=bias)
    if block.correction_bias:
        yield vector("router.correction", block.experts * times)
    inside, outer = hidden if block.latent is None else block.latent, block.outer_bias
    if block.latent is not None:
        for name, sides in (("down", (hidden, inside)), ("up", (inside, hidden))):
            yield linear(f"experts.latent_{name}", part, *sides, times=times, bias=outer)
    names = ("gate_proj", "up_proj")[not block.gated :]
    many = partial(linear, times=block.experts * times, used=block.active * times, bias=block.bias)
    for name in names:
        yield many(f"experts.{name}", part, inside, block.width)
    yield many("experts.down_proj", part, block.width, inside)
    if block.shared_width:
        for term in mlp(hidden, Mlp(block.shared_width, block.gated, block.bias or outer), times):
            yield replace(term, name=term.name.replace("mlp", "shared_expert"), part=part)
        if block.shared_gate:
            yield linear("shared_expert.gate", Part.ROUTER, hidden, 1, times=times)


def mixer_terms(hidden: int, mixer: Mixer, times: int, causal: bool) -> Iterator[Term]:
    """The terms of the mixer of tokens, for `times` equal layers."""
    if isinstance(mixer, GroupedAttention):
        return grouped_attention(hidden, mixer, times, causal)
    if isinstance(mixer, LatentAttention):
        return latent_attention(hidden, mixer, times, causal)
    if isinstance(mixer, Mamba2):
        return mamba2(hidden, mixer, times)
    if isinstance(mixer, Mamba1):
        return mamba1(hidden, mixer, times)
    return delta_net(hidden, mixer, times)


def layers(hidden: int, stack: tuple[Layer, ...], causal: bool = True) -> Iterator[Term]:
    """The terms of a stack of layers. Equal layers are counted together."""
    for layer, times in grouped(stack):
        if layer.mixer is not None:
            yield from mixer_terms(hidden, layer.mixer, times, causal)
        if isinstance(layer.feed_forward, Mlp):
            yield from mlp(hidden, layer.feed_forward, times)
        elif layer.feed_forward is not None:
            yield from experts(hidden, layer.feed_forward, times)
        yield vector("norms", layer.norm_parameters * times)


def encoder(
    hidden: int, stack: tuple[Layer, ...], stream: str = TOKENS, prefix: str = ""
) -> Iterator[Term]:
    """The terms of layers that attend in both directions over one stream; `prefix` is put before their names."""
    for term in layers(hidden, stack, causal=False):
        extent = replace(term.extent, stream=stream)
        yield replace(term, name=prefix + term.name, extent=extent)


def useful(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms, merged, without those that have neither FLOPs nor parameters."""
    return merge(term for term in terms if term.flops or term.parameters)


def decoder(shape: Decoder, causal: bool = True, predictions: bool = False) -> tuple[Term, ...]:
    """All terms of a decoder: embedding, layers, head.

    Each depth of multi-token prediction has a layer like the last one, a projection of [hidden; embedding] and the
    head again (DeepSeek-V3, arXiv:2412.19437, section 2.2); embedding and head are shared.
    """
    return useful(_decoder(shape, causal, predictions))


def _decoder(shape: Decoder, causal: bool, predictions: bool) -> Iterator[Term]:
    hidden, width = shape.hidden, shape.embedding_width or shape.hidden
    yield embedding("embed_tokens", shape.vocab, width)
    yield embedding("embed_positions", shape.positions, hidden)
    yield vector("embed_norm", shape.embedding_norm_parameters, in_layers=False)
    if width != hidden:
        yield linear("project_in", Part.PROJECTION, width, hidden, in_layers=False)
        yield linear("project_out", Part.PROJECTION, hidden, width, in_layers=False)
    yield from layers(hidden, shape.layers, causal)
    depth = shape.predictions if predictions else 0
    if depth:
        yield from layers(hidden, shape.predicting(depth), causal)
        yield linear("mtp.eh_proj", Part.PREDICTION, 2 * hidden, hidden, times=depth)
        yield vector("mtp.norms", (2 * hidden + shape.final_norm_parameters) * depth)
    yield vector("final_norm", shape.final_norm_parameters, in_layers=False)
    yield head(shape, 1 + depth)


def head(shape: Decoder, times: int = 1) -> Term:
    """2 h V FLOPs per token and prediction; a head that is tied to the embedding has no parameters of its own."""
    width, rows = shape.embedding_width or shape.hidden, shape.head_rows
    tied = shape.tied and shape.labels is None
    parameters = (0 if tied else width * rows) + shape.head_bias * rows
    return Term(
        "lm_head" if shape.labels is None else "score",
        Part.HEAD,
        flops=2 * width * rows * times,
        parameters=parameters,
        active=parameters,
        in_layers=False,
    )
