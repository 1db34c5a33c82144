"""Causes before and after the layers: the count has a part that multiplies nothing, or lacks a part that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ofu_exporter.flops import Part, Term
from ofu_exporter.flops.causes import CountedStep, miscount, without


def _multiplied(terms: Sequence[Term]) -> Sequence[Term]:
    return [
        replace(term, flops=2 * term.parameters) if term.part is Part.EMBEDDING else term
        for term in terms
    ]


def _without_predictions(step: CountedStep) -> CountedStep:
    return replace(step, counting=replace(step.counting, predictions=False))


CAUSES = (
    miscount(
        "embedding_counted",
        1.5,
        "the embedding is looked up, and the count multiplies it",
        lambda step: step.has(Part.EMBEDDING),
        lambda step: step.edited(_multiplied),
    ),
    miscount(
        "head_omitted",
        2.0,
        "the head multiplies the whole vocabulary, and the count leaves it out",
        lambda step: step.has(Part.HEAD),
        lambda step: step.edited(without(Part.HEAD)),
    ),
    miscount(
        "predictions_omitted",
        1.5,
        "multi-token-prediction layers are trained, and the count leaves them out",
        lambda step: step.counting.predictions,
        _without_predictions,
        {"job": "trains"},
    ),
)
