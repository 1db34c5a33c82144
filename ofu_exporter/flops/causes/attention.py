"""Causes in the attention cores: counted over the wrong pairs, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ofu_exporter.flops import Part
from ofu_exporter.flops.causes import (
    CauseFacts,
    Hypothesis,
    cause,
    each_layer,
    every_pair,
    in_part,
    layers_of,
    miscount,
    without,
)
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.mixers import GroupedAttention, LatentAttention
from ofu_exporter.flops.shapes import Decoder, Layer

COUNTED = {"cores": "are counted"}


def _is_causal(step: CountedStep) -> bool:
    return any(term.extent.causal for term in step.terms)


@miscount(1.5, _is_causal, COUNTED)
def full_attention_counted(step: CountedStep) -> CountedStep:
    """Attention is causal, and the count takes every pair of query and key."""
    return every_pair(step)


@miscount(2.0, lambda step: step.has(Part.CORE) and not _is_causal(step), COUNTED)
def causal_half_missing(step: CountedStep) -> CountedStep:
    """Attention goes in both directions, and the count takes half of the pairs."""
    return step.edited(in_part(Part.CORE, lambda term: replace(term, flops=term.flops // 2)))


@miscount(1.5, lambda step: step.has(Part.CORE), {"cores": "are not counted"})
def attention_omitted(step: CountedStep) -> CountedStep:
    """The count has the weights (6 per parameter and token) and not the attention cores."""
    return step.edited(without(Part.CORE))


def attends_in_windows(step: CountedStep) -> bool:
    return any(
        isinstance(layer.mixer, GroupedAttention) and layer.mixer.window
        for layer in layers_of(step)
    )


def without_windows(step: CountedStep) -> CountedStep:
    """The step with every layer attending to the whole sequence."""
    return step.edited(lambda term: replace(term, extent=replace(term.extent, window=None)))


@miscount(1.5, attends_in_windows, COUNTED)
def sliding_window_ignored(step: CountedStep) -> CountedStep:
    """Layers attend in a sliding window, and the count takes the whole sequence."""
    return without_windows(step)


def _latent(layer: Layer, _: Decoder, **changed: object) -> Layer:
    mixer = layer.mixer
    if not isinstance(mixer, LatentAttention):
        return layer
    return replace(layer, mixer=replace(mixer, **changed))  # type: ignore[arg-type]


def _mixers(step: CountedStep | None) -> list[LatentAttention]:
    layers = layers_of(step)
    return [each.mixer for each in layers if isinstance(each.mixer, LatentAttention)]


def every_key(layer: Layer, shape: Decoder) -> Layer:
    """A layer whose latent attention is not sparse."""
    return _latent(layer, shape, keys=None, indexer=None)


@cause(1.0, needs=("config",))
def sparse_attention_as_dense(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Queries attend to the keys that an indexer chooses, and the count has them attend to all."""
    mixers = _mixers(facts.step)
    if not any(each.keys for each in mixers):
        return
    says = {**COUNTED, "heads": "are latent"}
    yield Hypothesis(miscount=partial(each_layer, change=partial(_latent, keys=None)), says=says)
    if any(each.indexer for each in mixers):
        change = every_key
        evidence = f"{sparse_attention_as_dense.meaning}, and no indexer"
        yield Hypothesis(evidence, miscount=partial(each_layer, change=change), says=says)


@cause(1.5, needs=("config",))
def latent_attention_as_heads(facts: CauseFacts) -> Iterator[Hypothesis]:
    """Attention goes through latents, and the count has whole projections for each head."""
    mixers = _mixers(facts.step)
    if facts.step is None or facts.step.model.shape is None or not mixers:
        return
    of = mixers[0]
    hidden = facts.step.model.shape.hidden
    widths: tuple[int, ...] = (hidden // of.heads, of.nope_dim + of.rope_dim, of.value_dim)
    if facts.engine:  # vLLM before 0.24 takes the width of what is cached, SGLang 256
        widths = (of.key_value_rank + of.rope_dim, 256)
    for width in dict.fromkeys(widths):
        evidence = f"attention goes through latents, and the count has {of.heads} heads of {width}"
        change = partial(_as_heads, width=width)
        says = {"heads": "are whole"}
        yield Hypothesis(evidence, miscount=partial(each_layer, change=change), says=says)


def _as_heads(layer: Layer, _: Decoder, width: int) -> Layer:
    mixer = layer.mixer
    if not isinstance(mixer, LatentAttention):
        return layer
    return replace(layer, mixer=GroupedAttention(mixer.heads, mixer.heads, width))
