"""Megatron-LM: what its `num_floating_point_operations` counts, to the last integer.

Megatron-LM `megatron/training/training.py: num_floating_point_operations` (2026-08). Always half of the
pairs, never a sliding window; head with the padded vocabulary; no embedding, router or recomputation. Its two paths:

- transformer: dense and MoE layers, latent experts, shared experts, GQA or MLA (with 1 per LoRA rank for its
  norm), gated delta nets, multi-token prediction (3 h for norms, 2 h^2 for the projection);
- hybrid, as soon as a layer is a Mamba-2 mixer or has one block only: per layer type, the scan 7 FLOPs per inner
  channel and state. It takes the inner width of Mamba as 2 h, whatever the heads are, leaves MLA layers at 0, and
  counts prediction layers by their head only. The warnings say where that differs from the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofu_exporter.flops.models import Counting, Model, NotDefined, decoder_only
from ofu_exporter.flops.recurrences import DELTA_PRODUCTS, SCAN_FLOPS
from ofu_exporter.flops.shapes import (
    Decoder,
    DeltaNet,
    Experts,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    Layer,
    Mamba2,
    Mixer,
    Mlp,
    grouped,
)
from ofu_exporter.flops.terms import Extent, Part, Per, Term, merge

HALF = Extent(Per.PAIR, causal=True)


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    """The terms of the path that Megatron-LM takes for such a model."""
    shape = decoder_only(model, counting, "megatron", halved=True, predictions=True)
    hybrid = is_hybrid(shape)
    depth = shape.predictions if counting.predictions else 0
    layers = shape.layers + (() if hybrid else shape.predicting(depth))
    counted = [
        term
        for layer, times in grouped(layers)
        for term in _layer(model, shape.hidden, layer, times)
    ]
    if depth and not hybrid:
        per_token = 2 * depth * (3 * shape.hidden + 2 * shape.hidden**2)
        counted.append(Term("mtp", Part.PREDICTION, flops=per_token))
    head = 2 * shape.hidden * shape.head_rows * (1 + depth)
    return merge([*counted, Term("logits", Part.HEAD, flops=head, in_layers=False)])


def is_hybrid(shape: Decoder) -> bool:
    """Whether Megatron-LM takes its hybrid path."""
    return any(
        isinstance(layer.mixer, Mamba2) or layer.mixer is None or layer.feed_forward is None
        for layer in shape.layers
    )


def _layer(model: Model, hidden: int, layer: Layer, times: int) -> Iterator[Term]:
    alone = layer.mixer is None or layer.feed_forward is None
    if layer.mixer is not None:
        yield from _mixer(model, hidden, layer.mixer, times, alone)
    if layer.feed_forward is not None:
        yield from _feed_forward(hidden, layer.feed_forward, times)


def _mixer(model: Model, hidden: int, mixer: Mixer, times: int, alone: bool) -> Iterator[Term]:
    if isinstance(mixer, GroupedAttention):
        width, keys = mixer.query_dim, mixer.key_dim
        gate = width if mixer.gated and not alone else 0
        projections = hidden * (width + 2 * keys + gate) + width * hidden
        yield Term("attention.linear", Part.PROJECTION, flops=2 * projections * times)
        yield Term("attention.core", Part.CORE, HALF, flops=4 * width * times)
    elif isinstance(mixer, LatentAttention) and mixer.keys is None:
        if not alone:
            yield from _latent(hidden, mixer, times)
    elif isinstance(mixer, Mamba2):
        yield from _mamba(hidden, mixer, times)
    elif isinstance(mixer, DeltaNet):
        yield from _delta(hidden, mixer, times)
    else:
        raise NotDefined(
            f"convention megatron is not defined for the {type(mixer).__name__} layers of {model.architecture}"
        )


def _latent(hidden: int, mixer: LatentAttention, times: int) -> Iterator[Term]:
    query, rank = mixer.query_dim, mixer.query_rank
    values = mixer.heads * mixer.value_dim
    queries = hidden * query if rank is None else rank * (hidden + query + 1)
    both = mixer.heads * (mixer.nope_dim + mixer.value_dim)
    shared = mixer.key_value_rank * (hidden + both + 1) + hidden * mixer.rope_dim
    projections = queries + shared + values * hidden
    yield Term("attention.linear", Part.PROJECTION, flops=2 * projections * times)
    yield Term("attention.core", Part.CORE, HALF, flops=2 * (query + values) * times)


def _mamba(hidden: int, mixer: Mamba2, times: int) -> Iterator[Term]:
    inner = 2 * hidden
    wide = 2 * inner + 2 * mixer.groups * mixer.state + mixer.heads
    yield Term("mamba.linear", Part.PROJECTION, flops=2 * hidden * (wide + inner) * times)
    yield Term("mamba.scan", Part.SCAN, flops=SCAN_FLOPS * inner * mixer.state * times)


def _delta(hidden: int, mixer: DeltaNet, times: int) -> Iterator[Term]:
    keys, values, heads = mixer.key_dim, mixer.value_dim, mixer.value_heads
    linear = hidden * (2 * keys + 2 * values + 2 * heads) + hidden * values
    yield Term("delta.linear", Part.PROJECTION, flops=2 * linear * times)
    convolution = mixer.kernel * (2 * keys + values)
    yield Term("delta.conv1d", Part.CONVOLUTION, flops=2 * convolution * times)
    state = heads * mixer.value_head_dim**2 * DELTA_PRODUCTS
    yield Term("delta.state", Part.SCAN, flops=2 * state * times)


def _feed_forward(hidden: int, block: FeedForward, times: int) -> Iterator[Term]:
    matrices = block.matrices
    if isinstance(block, Mlp):
        yield Term("mlp", Part.MLP, flops=2 * matrices * hidden * block.width * times)
        return
    inside = hidden if block.latent is None else block.latent
    routed = matrices * inside * block.width * block.active
    if block.latent is not None:
        routed += 2 * hidden * block.latent
    yield Term("experts", Part.EXPERTS, flops=2 * routed * times)
    shared = matrices * hidden * block.shared_width
    if shared:
        yield Term("shared_experts", Part.EXPERTS, flops=2 * shared * times)


def warnings(model: Model, counting: Counting) -> Sequence[str]:
    """Where Megatron-LM's count differs from what the model executes."""
    shape = model.shape
    if shape is None:
        return ()
    differences = [
        f"megatron takes Mamba's inner width as {2 * shape.hidden}; that of this model is {mixer.inner}"
        for mixer in {*shape.mixers(Mamba2)}
        if mixer.inner != 2 * shape.hidden
    ]
    if any(mixer.window for mixer in shape.mixers(GroupedAttention)):
        differences.append("megatron ignores sliding windows, which this model has")
    if shape.feed_forwards(Experts):
        differences.append("megatron leaves out the router")
    if shape.predictions and not counting.predictions:
        differences.append(
            f"the {shape.predictions} multi-token-prediction layer(s) that the configuration names are not counted"
        )
    return differences
