"""Causes before and after the layers: the count has a part that multiplies nothing, or lacks a part that does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ofu_exporter.flops import Part, Term
from ofu_exporter.flops.causes import Cause, CauseFacts, CountedStep, Hypothesis, Side, without


def _embedding(facts: CauseFacts) -> Iterator[Hypothesis]:
    if facts.step and any(term.part is Part.EMBEDDING for term in facts.step.terms()):
        yield Hypothesis(
            "the embedding is looked up, and the count multiplies it",
            miscount=lambda step: step.edited(_multiplied),
        )


def _multiplied(terms: Sequence[Term]) -> Sequence[Term]:
    return [
        replace(term, flops=2 * term.parameters) if term.part is Part.EMBEDDING else term
        for term in terms
    ]


def _head(facts: CauseFacts) -> Iterator[Hypothesis]:
    if facts.step and any(term.part is Part.HEAD for term in facts.step.terms()):
        yield Hypothesis(
            "the head multiplies the whole vocabulary, and the count leaves it out",
            miscount=lambda step: step.edited(without(Part.HEAD)),
        )


def _predictions(facts: CauseFacts) -> Iterator[Hypothesis]:
    if facts.step and facts.step.counting.predictions:
        yield Hypothesis(
            "multi-token-prediction layers are trained, and the count leaves them out",
            miscount=_without_predictions,
            says={"job": "trains"},
        )


def _without_predictions(step: CountedStep) -> CountedStep:
    return replace(step, counting=replace(step.counting, predictions=False))


CAUSES = (
    Cause(
        "embedding_counted",
        Side.REPORT,
        1.5,
        _embedding,
        ("config",),
        meaning="the embedding is looked up, and the count multiplies it",
    ),
    Cause(
        "head_omitted",
        Side.REPORT,
        2.0,
        _head,
        ("config",),
        meaning="the head multiplies the whole vocabulary, and the count leaves it out",
    ),
    Cause(
        "predictions_omitted",
        Side.REPORT,
        1.5,
        _predictions,
        ("config",),
        meaning="multi-token-prediction layers are trained, and the count leaves them out",
    ),
)
