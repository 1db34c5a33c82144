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

from ofu_exporter.flops.mixers import DeltaNet, GroupedAttention
from ofu_exporter.flops.models import Counting, Model, NotDefined, decoder_only
from ofu_exporter.flops.shapes import Decoder, Experts, Layer, grouped
from ofu_exporter.flops.terms import Extent, Part, Per, Term, merge

DENSE = ("Llama", "Mistral", "Qwen2", "Qwen3", "SeedOss", "MiMo", "Gemma3", "Apertus")
SPARSE = ("Qwen2Moe", "Qwen3Moe", "DeepseekV3", "GptOss")
VISION = ("Qwen2_5_VL", "Qwen3VL", "Qwen3VLMoe", "Qwen3_5", "Qwen3_5Moe")
NARROW = ("Qwen2_5_VL", "Qwen3VL")
SPARSE_EVERYWHERE = ("Qwen2Moe", "Qwen3Moe", "Qwen3VLMoe")
SHARED = ("DeepseekV3", "Qwen3_5Moe")
WINDOWED = ("Gemma3", "GptOss")
NORMED, NORMS = ("Apertus",), "attention.norms"
"""Models of verl's table, by the first part of the architecture's name, and what it counts for each."""


def terms(model: Model, counting: Counting) -> Sequence[Term]:
    name, tower = model.architecture.partition("For")[0], model.terms
    undefined = f"convention verl is not defined for {model.architecture}"
    if name == "Qwen2VL":
        raise NotDefined(f"{undefined}: verl fails without its vision_config.intermediate_size")
    shape = decoder_only(replace(model, terms=()), counting, "verl", halved=True)
    if name not in (VISION if tower else (*DENSE, *SPARSE)):
        raise NotDefined(f"{undefined}, which verl counts as 0")
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
            every_pair = replace(term.extent, chunk=None)
            yield replace(term, name="vision.attention.core", extent=every_pair)


def _layers(shape: Decoder, name: str) -> Iterator[Layer]:
    """The layers as verl takes them: all sparse, or with all heads of queries together as wide as the model."""
    sparse = shape.feed_forwards(Experts) if name in SPARSE_EVERYWHERE else []
    for layer in shape.layers:
        mixer, block = layer.mixer, sparse[0] if sparse else layer.feed_forward
        if name in NARROW and isinstance(mixer, GroupedAttention):
            mixer = replace(mixer, head_dim=shape.hidden // mixer.heads)
        yield replace(layer, mixer=mixer, feed_forward=block)


def _layer(hidden: int, layer: Layer, times: int, name: str) -> Iterator[Term]:
    """The layer's own products in the lines of verl, and what verl counts otherwise."""
    mixer, block = layer.mixer, layer.feed_forward
    if isinstance(block, Experts):
        shared = block.shared_width if name in SHARED else 0
        layer = replace(layer, feed_forward=replace(block, latent=None, shared_width=shared))
    window = mixer.window if isinstance(mixer, GroupedAttention) and name in WINDOWED else None
    for term in layer.terms(hidden, times):
        if term.part in (Part.PROJECTION, Part.CONVOLUTION):
            line = f"{term.name.partition('.')[0]}.linear"
            yield Term(line, Part.PROJECTION, flops=term.flops)
        elif term.part is Part.CORE:
            extent = Extent(Per.PAIR, causal=True, most=window)
            yield Term("attention.core", Part.CORE, extent, flops=term.flops)
        elif term.part in (Part.MLP, Part.EXPERTS, Part.ROUTER):
            yield Term(term.part.value, term.part, flops=term.flops)
        elif isinstance(mixer, DeltaNet) and term.part is Part.SCAN:
            state = mixer.key_head_dim * mixer.value_dim
            yield Term("delta.recurrence", Part.SCAN, flops=5 * state * times)
        elif isinstance(mixer, GroupedAttention) and name in NORMED and term.name == NORMS:
            norms = hidden + mixer.key_dim
            yield Term(term.name, Part.NORM, flops=2 * norms * times)


def warnings(model: Model, shape: Decoder, counting: Counting) -> Iterator[str]:
    name = model.architecture.partition("For")[0]
    yield "verl counts the embedding look-up as a product"
    if model.terms:
        yield "verl counts the mergers of images once for each patch"
    if name not in WINDOWED and any(mixer.window for mixer in shape.mixers(GroupedAttention)):
        yield "verl ignores sliding windows, which this model has"
    if name not in SHARED and any(block.shared_width for block in shape.feed_forwards(Experts)):
        yield "verl leaves out the shared experts"
