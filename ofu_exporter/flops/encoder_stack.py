"""Makes the terms of a stack of encoder layers: attention in both directions over one stream, and an MLP.

Per layer 4 h^2 + c h f multiply-adds per token and 2 h per pair of tokens, every pair: a causal half would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ofu_exporter.flops import blocks, products
from ofu_exporter.flops.shapes import GroupedAttention, Layer
from ofu_exporter.flops.terms import TOKENS, Extent, Part, Per, Term, merge


def stack(
    hidden: int,
    layers: tuple[Layer, ...],
    stream: str = TOKENS,
    prefix: str = "",
    causal: bool = False,
) -> Iterator[Term]:
    """The terms of layers over one stream; `prefix` is put before their names."""
    for term in blocks.layers(hidden, layers, causal):
        extent = replace(term.extent, stream=stream)
        yield replace(term, name=prefix + term.name, extent=extent)


def cross(
    hidden: int, mixer: GroupedAttention, times: int, queries: str, keys: str
) -> Iterator[Term]:
    """Attention between streams: queries and output per token of `queries`, keys and values per token of `keys`."""
    wide, part = mixer.query_dim, Part.PROJECTION
    per_query, per_key = Extent(stream=queries), Extent(stream=keys)
    bias, out = mixer.qkv_bias, mixer.out_bias
    keyed = bias and mixer.key_bias
    name = "cross_attention"
    yield products.linear(
        f"{name}.q_proj", part, hidden, wide, times=times, bias=bias, extent=per_query
    )
    yield products.linear(
        f"{name}.k_proj", part, hidden, mixer.key_dim, times=times, bias=keyed, extent=per_key
    )
    yield products.linear(
        f"{name}.v_proj", part, hidden, mixer.key_dim, times=times, bias=bias, extent=per_key
    )
    yield products.core(wide, wide, times, Extent(Per.CROSS, queries, keys), f"{name}.core")
    yield products.linear(
        f"{name}.o_proj", part, wide, hidden, times=times, bias=out, extent=per_query
    )


def useful(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms, merged, without those that have neither FLOPs nor parameters."""
    return merge(term for term in terms if term.flops or term.parameters)
