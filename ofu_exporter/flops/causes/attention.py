"""Causes in the attention cores: counted over the wrong pairs, or not at all."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import Part
from ofu_exporter.flops.causes import CountedStep, in_part, miscount, without

COUNTED = {"cores": "are counted"}


def _is_causal(step: CountedStep) -> bool:
    return any(term.extent.causal for term in step.terms)


@miscount(1.5, _is_causal, COUNTED)
def full_attention_counted(step: CountedStep) -> CountedStep:
    """Attention is causal, and the count takes every pair of query and key."""
    return replace(step, counting=replace(step.counting, causal=False))


@miscount(2.0, lambda step: step.has(Part.CORE) and not _is_causal(step), COUNTED)
def causal_half_missing(step: CountedStep) -> CountedStep:
    """Attention goes in both directions, and the count takes half of the pairs."""
    return step.edited(in_part(Part.CORE, lambda term: replace(term, flops=term.flops // 2)))


@miscount(1.5, lambda step: step.has(Part.CORE), {"cores": "are not counted"})
def attention_omitted(step: CountedStep) -> CountedStep:
    """The count has the weights (6 per parameter and token) and not the attention cores."""
    return step.edited(without(Part.CORE))


@miscount(1.5, lambda step: any(term.extent.window for term in step.terms), COUNTED)
def sliding_window_ignored(step: CountedStep) -> CountedStep:
    """Layers attend in a sliding window, and the count takes the whole sequence."""
    return step.edited(lambda term: replace(term, extent=replace(term.extent, window=None)))
