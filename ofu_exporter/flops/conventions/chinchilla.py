"""Hoffmann et al. (DeepMind): the rows of their appendix F, softmax and embedding product included.

"Training Compute-Optimal Large Language Models" (arXiv:2203.15556), appendix F, in FLOPs per sequence: embeddings
2 S V h, QKV, logits 2 S^2 q, softmax 3 heads S^2, reduction 2 S^2 q, projection, feed-forward, logits 2 S h V. Full
attention. For vision transformers the embedding is the product of the patches, and the head is applied to one token
per image (Casson, "Transformer FLOPs", 2023, appendix C). Where a model has fewer key groups or gated MLPs, the
weights that it has are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Counting, Model, dense_decoder, dense_widths
from ofu_exporter.flops.shapes import Decoder
from ofu_exporter.flops.terms import Extent, Part, Per, Term

SOFTMAX = 3
"""FLOPs of a softmax per element in the paper."""


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    """The rows, or a vision transformer's own terms and the softmax."""
    if model.softmax_heads:
        return (*model.terms, _softmax(model.softmax_heads, model.counted[0]))
    shape = dense_decoder(model, counting, "chinchilla")
    hidden, (wide, keys, forward) = shape.hidden, dense_widths(shape)
    heads = sum(mixer.heads for mixer in shape.mixers(GroupedAttention))
    return (
        Term("embeddings", Part.EMBEDDING, flops=2 * shape.vocab * hidden, in_layers=False),
        Term("attention.qkv", Part.PROJECTION, flops=2 * hidden * (wide + 2 * keys)),
        Term("attention.logits", Part.CORE, Extent(Per.PAIR), flops=2 * wide),
        _softmax(heads, model.counted[0]),
        Term("attention.reduction", Part.CORE, Extent(Per.PAIR), flops=2 * wide),
        Term("attention.project", Part.PROJECTION, flops=2 * wide * hidden),
        Term("feedforward", Part.MLP, flops=2 * hidden * forward),
        Term("logits", Part.HEAD, flops=2 * hidden * shape.head_rows, in_layers=False),
    )


def _softmax(heads: int, stream: str) -> Term:
    return Term("attention.softmax", Part.CORE, Extent(Per.PAIR, stream), flops=SOFTMAX * heads)


def warnings(model: Model, shape: Decoder, counting: Counting) -> Sequence[str]:
    """None: everything that it counts beyond the model's products is the convention."""
    return ()
