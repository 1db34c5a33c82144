"""Causes in the attention cores: counted over the wrong pairs, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ofu_exporter.flops import Part, Per, Term
from ofu_exporter.flops.causes import Cause, CauseFacts, Hypothesis, Side, without

COUNTED = {"cores": "are counted"}


def _full(facts: CauseFacts) -> Iterator[Hypothesis]:
    if facts.step and any(term.extent.causal for term in facts.step.terms()):
        yield Hypothesis(
            "attention is causal, and the count takes every pair of query and key",
            miscount=lambda step: replace(step, counting=replace(step.counting, causal=False)),
            says=COUNTED,
        )


def _half(facts: CauseFacts) -> Iterator[Hypothesis]:
    terms = facts.step.terms() if facts.step else ()
    cores = [term for term in terms if term.part is Part.CORE]
    if cores and not any(term.extent.causal for term in cores):
        yield Hypothesis(
            "attention goes in both directions, and the count takes half of the pairs",
            miscount=lambda step: step.edited(_halved),
            says=COUNTED,
        )


def _halved(terms: Sequence[Term]) -> Sequence[Term]:
    return [
        replace(term, flops=term.flops // 2) if term.part is Part.CORE else term for term in terms
    ]


def _omitted(facts: CauseFacts) -> Iterator[Hypothesis]:
    if facts.step and any(term.part is Part.CORE for term in facts.step.terms()):
        yield Hypothesis(
            "the count has the weights (6 per parameter and token) and not the attention cores",
            miscount=lambda step: step.edited(without(Part.CORE)),
            says={"cores": "are not counted"},
        )


def _unwindowed(facts: CauseFacts) -> Iterator[Hypothesis]:
    if facts.step and any(term.extent.window for term in facts.step.terms()):
        yield Hypothesis(
            "layers attend in a sliding window, and the count takes the whole sequence",
            miscount=lambda step: step.edited(_without_windows),
            says=COUNTED,
        )


def _without_windows(terms: Sequence[Term]) -> Sequence[Term]:
    return [
        replace(term, extent=replace(term.extent, window=None))
        if term.extent.per is Per.PAIR
        else term
        for term in terms
    ]


CAUSES = (
    Cause(
        "full_attention_counted",
        Side.REPORT,
        1.5,
        _full,
        ("config",),
        meaning="attention is causal, and the count takes every pair of query and key",
    ),
    Cause(
        "causal_half_missing",
        Side.REPORT,
        2.0,
        _half,
        ("config",),
        meaning="attention goes in both directions, and the count takes half of the pairs",
    ),
    Cause(
        "attention_omitted",
        Side.REPORT,
        1.5,
        _omitted,
        ("config",),
        meaning="the count has the weights (6 per parameter and token) and not the attention cores",
    ),
    Cause(
        "sliding_window_ignored",
        Side.REPORT,
        1.5,
        _unwindowed,
        ("config",),
        meaning="layers attend in a sliding window, and the count takes the whole sequence",
    ),
)
