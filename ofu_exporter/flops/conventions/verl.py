"""verl: 6 FLOPs per weight and token, the embedding look-up and the router among the weights, and half of the pairs.

verl `verl/utils/flops_counter.py: ESTIMATE_FUNC` (2026-08). The table of the embedding counts like a second head, tied
or not. In gpt-oss and Gemma 3 a query of a windowed layer sees half of min(L, W) keys; elsewhere windows are ignored.
In Apertus the norms of queries and keys are weights, h and kv wide (`_estimate_apertus_flops`). Of Qwen's sparse models
every layer counts as sparse, and shared experts are left out but in Qwen3.5, whose recurrence costs 5 d_k d_v per head
and token (`_compute_qwen3_5_gdn_recurrence_flops`). Vision towers have two matrices in an MLP, every pair of patches,
and mergers on unmerged patches (`_estimate_qwen3_vit_flop`); the heads of the text before them are h / a wide. Models
that are not in the table count 0 there, with a line in the log; here the convention is not defined for them, nor for
some in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ofu_exporter.flops.models import Counting, Model, NotDefined, decoder_only
from ofu_exporter.flops.shapes import (
    Decoder,
    DeltaNet,
    Experts,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    Layer,
    Mixer,
    Mlp,
    grouped,
)
from ofu_exporter.flops.terms import Extent, Part, Per, Term, merge

DENSE = ("Llama", "Mistral", "Qwen2", "Qwen3", "SeedOss", "Gemma3", "Apertus")
SPARSE = ("Qwen2Moe", "Qwen3Moe", "DeepseekV3", "GptOss")
VISION = ("Qwen2_5_VL", "Qwen3VL", "Qwen3VLMoe", "Qwen3_5", "Qwen3_5Moe")
NARROW = ("Qwen2_5_VL", "Qwen3VL")
SPARSE_EVERYWHERE = ("Qwen2Moe", "Qwen3Moe", "Qwen3VLMoe")
SHARED = ("DeepseekV3", "Qwen3_5Moe")
WINDOWED = ("Gemma3", "GptOss")
NORMED = ("Apertus",)
"""Models of verl's table, by the first part of the architecture's name, and what it counts for each."""


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    """The terms that the model's function in the table counts."""
    name, tower = _name(model), model.terms
    if name == "Qwen2VL":
        raise NotDefined(
            f"convention verl is not defined for {model.architecture}: "
            "verl fails without its vision_config.intermediate_size"
        )
    shape = decoder_only(replace(model, terms=()), counting, "verl", halved=True)
    if name not in (VISION if tower else (*DENSE, *SPARSE)):
        raise NotDefined(
            f"convention verl is not defined for {model.architecture}, which verl counts as 0"
        )
    counted = [
        term
        for layer, times in grouped(_layers(shape, name))
        for term in _layer(shape.hidden, layer, times, name)
    ]
    ends = 2 * shape.hidden * shape.vocab
    language = [
        Term("embed_tokens", Part.EMBEDDING, flops=ends, in_layers=False),
        *counted,
        Term("lm_head", Part.HEAD, flops=ends, in_layers=False),
    ]
    language = [replace(term, tower=model.towers[-1]) for term in language]
    return merge([*language, *_vision(tower)])


def _vision(tower: Sequence[Term]) -> Iterator[Term]:
    """Every weight once for each patch, but those of gates; every pair of patches."""
    for term in tower:
        if term.linear is not None and not term.name.endswith("gate_proj"):
            weights = term.linear.inputs * term.linear.outputs * term.linear.stored
            yield replace(term, flops=2 * weights)
        elif term.part is Part.CORE:
            yield replace(
                term, name="vision.attention.core", extent=replace(term.extent, chunk=None)
            )


def _name(model: Model) -> str:
    return model.architecture.partition("For")[0]


def _layers(shape: Decoder, name: str) -> tuple[Layer, ...]:
    sparse, layers = shape.feed_forwards(Experts), shape.layers
    if name in SPARSE_EVERYWHERE and sparse:
        layers = tuple(replace(layer, feed_forward=sparse[0]) for layer in layers)
    return tuple(_narrow(shape.hidden, layer) for layer in layers) if name in NARROW else layers


def _narrow(hidden: int, layer: Layer) -> Layer:
    """The layer with all heads of queries together as wide as the model."""
    assert isinstance(layer.mixer, GroupedAttention)
    return replace(layer, mixer=replace(layer.mixer, head_dim=hidden // layer.mixer.heads))


def _layer(hidden: int, layer: Layer, times: int, name: str) -> Iterator[Term]:
    if isinstance(layer.mixer, DeltaNet):
        yield from _delta_net(hidden, layer.mixer, times)
    elif layer.mixer is not None:
        yield from _attention(hidden, layer.mixer, times, name in WINDOWED)
    if name in NORMED and isinstance(layer.mixer, GroupedAttention):
        norms = hidden + layer.mixer.key_dim
        yield Term("attention.norms", Part.NORM, flops=2 * norms * times)
    if layer.feed_forward is not None:
        yield from _feed_forward(hidden, layer.feed_forward, times, name in SHARED)


def _attention(hidden: int, mixer: Mixer, times: int, has_windows: bool) -> Iterator[Term]:
    if isinstance(mixer, GroupedAttention):
        gate = mixer.query_dim if mixer.gated else 0
        weights = hidden * (2 * (mixer.query_dim + mixer.key_dim) + gate)
        extent = Extent(Per.PAIR, causal=True, most=mixer.window if has_windows else None)
        core = 4 * mixer.query_dim
    else:
        assert isinstance(mixer, LatentAttention)
        extent = Extent(Per.PAIR, causal=True)
        weights, core = _latent(hidden, mixer)
    yield Term("attention.linear", Part.PROJECTION, flops=2 * weights * times)
    yield Term("attention.core", Part.CORE, extent, flops=core * times)


def _delta_net(hidden: int, mixer: DeltaNet, times: int) -> Iterator[Term]:
    channels = 2 * mixer.key_dim + mixer.value_dim
    weights = hidden * (channels + 2 * (mixer.value_dim + mixer.value_heads))
    weights += mixer.kernel * channels
    state = mixer.key_head_dim * mixer.value_dim
    yield Term("delta.linear", Part.PROJECTION, flops=2 * weights * times)
    yield Term("delta.recurrence", Part.SCAN, flops=5 * state * times)


def _latent(hidden: int, mixer: LatentAttention) -> tuple[int, int]:
    """Weights, and FLOPs per pair."""
    query, rank, values = mixer.query_dim, mixer.query_rank, mixer.heads * mixer.value_dim
    queries = hidden * query if rank is None else rank * (hidden + query)
    both = mixer.heads * (mixer.nope_dim + mixer.value_dim)
    shared = mixer.key_value_rank * (hidden + both) + hidden * mixer.rope_dim
    return queries + shared + values * hidden, 2 * (query + values)


def _feed_forward(hidden: int, block: FeedForward, times: int, has_shared: bool) -> Iterator[Term]:
    if isinstance(block, Mlp):
        yield Term("mlp", Part.MLP, flops=2 * block.matrices * hidden * block.width * times)
        return
    width = block.width * block.active + (block.shared_width if has_shared else 0)
    gate = 1 if has_shared and block.shared_gate else 0
    yield Term("router", Part.ROUTER, flops=2 * hidden * (block.experts + gate) * times)
    yield Term("experts", Part.EXPERTS, flops=2 * 3 * hidden * width * times)


def warnings(model: Model, counting: Counting) -> Sequence[str]:
    """Where verl's count differs from what the model executes."""
    differences = ["verl counts the embedding look-up as a product"]
    name, shape = _name(model), model.shape
    if shape is None:
        return ()
    if model.terms:
        differences.append("verl counts the mergers of images once for each patch")
    if name not in WINDOWED and any(mixer.window for mixer in shape.mixers(GroupedAttention)):
        differences.append("verl ignores sliding windows, which this model has")
    if name not in SHARED and any(block.shared_width for block in shape.feed_forwards(Experts)):
        differences.append("verl leaves out the shared experts")
    return differences
