"""Megatron-LM: what its `num_floating_point_operations` counts, to the last integer.

Megatron-LM `megatron/training/training.py: num_floating_point_operations` (2026-08). Always half of the
pairs, never a sliding window; head with the padded vocabulary; no embedding, router or recomputation. Its two paths:

- transformer: dense and MoE layers, latent experts, shared experts, GQA or MLA (with 1 per LoRA rank for its norm;
  attention on chosen keys as if it were dense), gated delta nets, multi-token prediction (3 h for norms, 2 h^2 for the
  projection);
- hybrid, as soon as a layer is a Mamba-2 mixer or has one block only: per layer type, the scan 7 FLOPs per inner
  channel and state. It takes the inner width of Mamba as 2 h, whatever the heads are, leaves MLA layers at 0, and
  counts prediction layers by their head only. The warnings say where that differs from the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ofu_exporter.flops.mixers import SCAN_FLOPS, GroupedAttention, LatentAttention, Mamba1, Mamba2
from ofu_exporter.flops.models import Counting, Model, NotDefined, decoder_only
from ofu_exporter.flops.shapes import Decoder, Experts, Layer, grouped
from ofu_exporter.flops.terms import Extent, Part, Per, Term, merge

HALF = Extent(Per.PAIR, causal=True)


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    """The terms of the path that Megatron-LM takes for such a model."""
    shape = decoder_only(model, counting, "megatron", halved=True, predictions=True)
    hybrid = is_hybrid(shape)
    depth = shape.predictions if counting.predictions else 0
    predicting = [(layer, depth) for layer in shape.predicting if depth and not hybrid]
    counted = [
        term
        for layer, times in (*grouped(shape.layers), *predicting)
        for term in _layer(model, shape.hidden, layer, times)
    ]
    if depth and not hybrid:
        per_token = 2 * depth * (3 * shape.hidden + 2 * shape.hidden**2)
        counted.append(Term("mtp", Part.PREDICTION, flops=per_token))
    head = 2 * shape.hidden * shape.head_rows * (1 + depth)
    return merge([*counted, Term("logits", Part.HEAD, flops=head, in_layers=False)])


def is_hybrid(shape: Decoder) -> bool:
    return any(
        isinstance(layer.mixer, Mamba2) or layer.mixer is None or layer.feed_forward is None
        for layer in shape.layers
    )


def _layer(model: Model, hidden: int, layer: Layer, times: int) -> Iterator[Term]:
    """The layer's own products but the router's, and what Megatron-LM counts otherwise of its mixer."""
    mixer, alone = layer.mixer, layer.mixer is None or layer.feed_forward is None
    if isinstance(mixer, LatentAttention):
        layer = replace(layer, mixer=replace(mixer, keys=None, indexer=None))
    if isinstance(mixer, Mamba1):
        raise NotDefined(
            f"convention megatron is not defined for the {type(mixer).__name__} layers of {model.architecture}"
        )
    if isinstance(mixer, LatentAttention) and not alone:
        norms = mixer.key_value_rank + (mixer.query_rank or 0)
        yield Term("attention.linear", Part.PROJECTION, flops=2 * norms * times)
    if isinstance(mixer, GroupedAttention) and alone:
        layer = replace(layer, mixer=replace(mixer, gated=False))
    if isinstance(mixer, Mamba2):
        yield from _mamba(hidden, mixer, times)
    if isinstance(mixer, Mamba2) or (isinstance(mixer, LatentAttention) and alone):
        layer = replace(layer, mixer=None)
    for term in layer.terms(hidden, times):
        if term.flops and term.part is not Part.ROUTER:
            extent = HALF if term.part is Part.CORE else term.extent
            yield Term(_name(term), term.part, extent, term.flops)


def _name(term: Term) -> str:
    block = term.name.partition(".")[0]
    if term.part is Part.EXPERTS:
        return "shared_experts" if block == "shared_expert" else "experts"
    names = {Part.PROJECTION: f"{block}.linear", Part.CORE: "attention.core", Part.MLP: "mlp"}
    return names.get(term.part, term.name)


def _mamba(hidden: int, mixer: Mamba2, times: int) -> Iterator[Term]:
    inner = 2 * hidden
    wide = 2 * inner + 2 * mixer.groups * mixer.state + mixer.heads
    yield Term("mamba.linear", Part.PROJECTION, flops=2 * hidden * (wide + inner) * times)
    yield Term("mamba.scan", Part.SCAN, flops=SCAN_FLOPS * inner * mixer.state * times)


def warnings(model: Model, shape: Decoder, counting: Counting) -> Iterator[str]:
    for mixer in {*shape.mixers(Mamba2)}:
        if mixer.inner != 2 * shape.hidden:
            taken = f"megatron takes Mamba's inner width as {2 * shape.hidden}"
            yield f"{taken}; that of this model is {mixer.inner}"
    if any(mixer.window for mixer in shape.mixers(GroupedAttention)):
        yield "megatron ignores sliding windows, which this model has"
    if any(mixer.keys is not None for mixer in shape.mixers(LatentAttention)):
        yield "megatron counts sparse attention as dense, and no indexer"
    if shape.feed_forwards(Experts):
        yield "megatron leaves out the router"
    if shape.predictions and not counting.predictions:
        layers = f"the {shape.predictions} multi-token-prediction layer(s)"
        yield f"{layers} that the configuration names are not counted"
