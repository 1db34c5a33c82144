"""Causes in the attention cores: counted over the wrong pairs, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ofu_exporter.flops import Part, Per, Term
from ofu_exporter.flops.causes import CountedStep, miscount, without

COUNTED = {"cores": "are counted"}


def _is_causal(step: CountedStep) -> bool:
    return any(term.extent.causal for term in step.terms())


def _without_mask(step: CountedStep) -> CountedStep:
    return replace(step, counting=replace(step.counting, causal=False))


def _halved(terms: Sequence[Term]) -> Sequence[Term]:
    return [
        replace(term, flops=term.flops // 2) if term.part is Part.CORE else term for term in terms
    ]


def _without_windows(terms: Sequence[Term]) -> Sequence[Term]:
    return [
        replace(term, extent=replace(term.extent, window=None))
        if term.extent.per is Per.PAIR
        else term
        for term in terms
    ]


CAUSES = (
    miscount(
        "full_attention_counted",
        1.5,
        "attention is causal, and the count takes every pair of query and key",
        _is_causal,
        _without_mask,
        COUNTED,
    ),
    miscount(
        "causal_half_missing",
        2.0,
        "attention goes in both directions, and the count takes half of the pairs",
        lambda step: step.has(Part.CORE) and not _is_causal(step),
        lambda step: step.edited(_halved),
        COUNTED,
    ),
    miscount(
        "attention_omitted",
        1.5,
        "the count has the weights (6 per parameter and token) and not the attention cores",
        lambda step: step.has(Part.CORE),
        lambda step: step.edited(without(Part.CORE)),
        {"cores": "are not counted"},
    ),
    miscount(
        "sliding_window_ignored",
        1.5,
        "layers attend in a sliding window, and the count takes the whole sequence",
        lambda step: any(term.extent.window for term in step.terms()),
        lambda step: step.edited(_without_windows),
        COUNTED,
    ),
)
