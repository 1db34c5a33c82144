"""Kaplan et al. (OpenAI): the rows of their table 1, in FLOPs per token.

"Scaling Laws for Neural Language Models" (arXiv:2001.08361), section 2.1, table 1: embedding 4 h, QKV, mask
2 n_layer n_ctx d_attn, projection, feed-forward, de-embedding 2 h V. The paper's own total, 2 N + 2 n_layer n_ctx
d_attn, leaves out the rows `embed` and `de-embed`; this one is the sum of all rows. The mask row is QK^T alone:
the same number as a causal QK^T and PV. Where a model has fewer key groups or gated MLPs, the weights that it has
are counted, at 2 FLOPs each like the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.flops.models import Counting, Model, dense_decoder, dense_widths
from ofu_exporter.flops.shapes import Decoder
from ofu_exporter.flops.terms import Extent, Part, Per, Term


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    shape = dense_decoder(model, counting, "kaplan")
    hidden, (wide, keys, forward) = shape.hidden, dense_widths(shape)
    return (
        Term("embed", Part.EMBEDDING, flops=4 * hidden, in_layers=False),
        Term("attention.qkv", Part.PROJECTION, flops=2 * hidden * (wide + 2 * keys)),
        Term("attention.mask", Part.CORE, Extent(Per.PAIR), flops=2 * wide),
        Term("attention.project", Part.PROJECTION, flops=2 * wide * hidden),
        Term("feedforward", Part.MLP, flops=2 * hidden * forward),
        Term("de-embed", Part.HEAD, flops=2 * hidden * shape.head_rows, in_layers=False),
    )


def warnings(model: Model, shape: Decoder, counting: Counting) -> Sequence[str]:
    """The rows that the paper itself leaves out of its total."""
    return ("kaplan: the paper's own total leaves out the rows embed and de-embed",)
