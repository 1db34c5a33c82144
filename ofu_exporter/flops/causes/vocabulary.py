"""Causes before and after the layers: the count has a part that multiplies nothing, or lacks a part that does."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import Part
from ofu_exporter.flops.causes import CountedStep, in_part, miscount, without


@miscount(1.5, lambda step: step.has(Part.EMBEDDING))
def embedding_counted(step: CountedStep) -> CountedStep:
    """The embedding is looked up, and the count multiplies it."""
    multiplied = in_part(Part.EMBEDDING, lambda term: replace(term, flops=2 * term.parameters))
    return step.edited(multiplied)


@miscount(2.0, lambda step: step.has(Part.HEAD))
def head_omitted(step: CountedStep) -> CountedStep:
    """The head multiplies the whole vocabulary, and the count leaves it out."""
    return step.edited(without(Part.HEAD))


@miscount(1.5, lambda step: step.counting.predictions, {"job": "trains"})
def predictions_omitted(step: CountedStep) -> CountedStep:
    """Multi-token-prediction layers are trained, and the count leaves them out."""
    return replace(step, counting=replace(step.counting, predictions=False))
