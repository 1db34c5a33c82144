"""verl: 6 FLOPs per weight and token, the embedding look-up and the router among the weights, and half of the pairs.

verl `verl/utils/flops_counter.py: ESTIMATE_FUNC` (2026-08). The table of the embedding counts like a second head, tied
or not. In gpt-oss and Gemma 3 a query of a windowed layer sees half of min(L, W) keys; elsewhere windows are ignored.
In Apertus the norms of queries and keys are weights, h and kv wide (`_estimate_apertus_flops`). Of Qwen's sparse models
every layer counts as sparse, and shared experts are left out. Models that are not in the table count 0 there, with a
line in the log; here the convention is not defined for them, nor for some in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ofu_exporter.flops.models import Counting, Model, NotDefined, decoder_only
from ofu_exporter.flops.shapes import (
    Decoder,
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
SPARSE_EVERYWHERE = ("Qwen2Moe", "Qwen3Moe")
SHARED = ("DeepseekV3",)
WINDOWED = ("Gemma3", "GptOss")
NORMED = ("Apertus",)
"""Models of verl's table, by the first part of the architecture's name, and what it counts for each."""
NOT_HERE = (
    "Glm4v",
    "MiniCPMO",
    "MiniCPMV",
    "Qwen2VL",
    "Qwen2_5_VL",
    "Qwen3VL",
    "Qwen3VLMoe",
)
"""Models of the table whose formulas are not here."""


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    """The terms that the model's function in the table counts."""
    name = _name(model)
    if name in NOT_HERE:
        raise NotDefined(
            f"convention verl is not known here for {model.architecture}: verl has a formula for it"
        )
    shape = decoder_only(model, counting, "verl", halved=True)
    if name not in (*DENSE, *SPARSE):
        raise NotDefined(
            f"convention verl is not defined for {model.architecture}, which verl counts as 0"
        )
    counted = [
        term
        for layer, times in grouped(_layers(shape, name))
        for term in _layer(shape.hidden, layer, times, name)
    ]
    ends = 2 * shape.hidden * shape.vocab
    return merge(
        [
            Term("embed_tokens", Part.EMBEDDING, flops=ends, in_layers=False),
            *counted,
            Term("lm_head", Part.HEAD, flops=ends, in_layers=False),
        ]
    )


def _name(model: Model) -> str:
    return model.architecture.partition("For")[0]


def _layers(shape: Decoder, name: str) -> tuple[Layer, ...]:
    sparse = shape.feed_forwards(Experts)
    if name not in SPARSE_EVERYWHERE or not sparse:
        return shape.layers
    return tuple(replace(layer, feed_forward=sparse[0]) for layer in shape.layers)


def _layer(hidden: int, layer: Layer, times: int, name: str) -> Iterator[Term]:
    if layer.mixer is not None:
        yield from _mixer(hidden, layer.mixer, times, name in WINDOWED)
    if name in NORMED and isinstance(layer.mixer, GroupedAttention):
        norms = hidden + layer.mixer.key_dim
        yield Term("attention.norms", Part.NORM, flops=2 * norms * times)
    if layer.feed_forward is not None:
        yield from _feed_forward(hidden, layer.feed_forward, times, name in SHARED)


def _mixer(hidden: int, mixer: Mixer, times: int, has_windows: bool) -> Iterator[Term]:
    if isinstance(mixer, GroupedAttention):
        weights = 2 * hidden * (mixer.query_dim + mixer.key_dim)
        extent = Extent(Per.PAIR, causal=True, most=mixer.window if has_windows else None)
        core = 4 * mixer.query_dim
    else:
        assert isinstance(mixer, LatentAttention)
        extent = Extent(Per.PAIR, causal=True)
        weights, core = _latent(hidden, mixer)
    yield Term("attention.linear", Part.PROJECTION, flops=2 * weights * times)
    yield Term("attention.core", Part.CORE, extent, flops=core * times)


def _latent(hidden: int, mixer: LatentAttention) -> tuple[int, int]:
    """Weights, and FLOPs per pair."""
    query, rank, values = mixer.query_dim, mixer.query_rank, mixer.heads * mixer.value_dim
    own = hidden * query if rank is None else rank * (hidden + query)
    both = mixer.heads * (mixer.nope_dim + mixer.value_dim)
    shared = mixer.key_value_rank * (hidden + both) + hidden * mixer.rope_dim
    return own + shared + values * hidden, 2 * (query + values)


def _feed_forward(hidden: int, block: FeedForward, times: int, has_shared: bool) -> Iterator[Term]:
    if isinstance(block, Mlp):
        yield Term("mlp", Part.MLP, flops=2 * block.matrices * hidden * block.width * times)
        return
    width = block.width * block.active + (block.shared_width if has_shared else 0)
    yield Term("router", Part.ROUTER, flops=2 * hidden * block.experts * times)
    yield Term("experts", Part.EXPERTS, flops=2 * 3 * hidden * width * times)


def warnings(model: Model, counting: Counting) -> Sequence[str]:
    """Where verl's count differs from what the model executes."""
    differences = ["verl counts the embedding look-up as a product"]
    name, shape = _name(model), model.shape
    if shape is None:
        return ()
    if name not in WINDOWED and any(mixer.window for mixer in shape.mixers(GroupedAttention)):
        differences.append("verl ignores sliding windows, which this model has")
    if name not in SHARED and any(block.shared_width for block in shape.feed_forwards(Experts)):
        differences.append("verl leaves out the shared experts")
    return differences
