"""Makes the terms of a stack of encoder layers: attention in both directions over one stream, and an MLP.

Per layer 4 h^2 + c h f multiply-adds per token and 2 h per pair of tokens, every pair: a causal half would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ofu_exporter.flops import blocks
from ofu_exporter.flops.shapes import Layer
from ofu_exporter.flops.terms import TOKENS, Term, merge


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


def useful(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms, merged, without those that have neither FLOPs nor parameters."""
    return merge(term for term in terms if term.flops or term.parameters)
