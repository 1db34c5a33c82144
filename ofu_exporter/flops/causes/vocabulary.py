"""Causes before and after the layers: the count has a part that multiplies nothing, or lacks a part that does."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import Part, Term
from ofu_exporter.flops.causes import FORMULA, every_pair, in_part, miscount, without
from ofu_exporter.flops.counted_step import CountedStep


@miscount(1.5, lambda step: step.has(Part.EMBEDDING))
def embedding_counted(step: CountedStep) -> CountedStep:
    """The embedding is looked up, and the count multiplies it."""
    multiplied = in_part(Part.EMBEDDING, lambda term: replace(term, flops=2 * term.parameters))
    return step.edited(multiplied)


@miscount(2.0, lambda step: step.has(Part.HEAD))
def head_omitted(step: CountedStep) -> CountedStep:
    """The head multiplies the whole vocabulary, and the count leaves it out."""
    return step.edited(without(Part.HEAD))


def _names_predictions(step: CountedStep) -> bool:
    shape = step.model.shape
    return bool(shape and shape.predictions) and not step.counting.predictions


@miscount(1.5, _names_predictions)
def predictions_counted(step: CountedStep) -> CountedStep:
    """Multi-token-prediction layers are counted, and the job is not said to train them (--mtp)."""
    return replace(step, counting=replace(step.counting, predictions=True))


@miscount(1.5, lambda step: len(step.model.towers) > 1)
def vision_omitted(step: CountedStep) -> CountedStep:
    """Images go through a tower of their own, and the count has the language model alone."""
    last = step.model.towers[-1]
    return step.edited(lambda term: term if term.tower == last else None)


@miscount(
    2.5,
    lambda step: step.has(Part.EMBEDDING) and step.has(Part.CORE),
    {FORMULA: "6 for each parameter"},
)
def all_parameters_and_pairs(step: CountedStep) -> CountedStep:
    """The count is 6 for each parameter and token, of the embedding and of every expert too, and every pair."""
    shape = step.model.shape
    tied = bool(shape and shape.tied)

    def of_all(term: Term) -> Term | None:
        if term.part is Part.EMBEDDING:
            return None if tied else replace(term, flops=2 * term.parameters)
        return replace(term, flops=2 * term.parameters) if term.part is Part.EXPERTS else term

    return every_pair(step).edited(of_all)


@miscount(1.5, lambda step: step.counting.predictions, {"job": "trains"})
def predictions_omitted(step: CountedStep) -> CountedStep:
    """Multi-token-prediction layers are trained, and the count leaves them out."""
    return replace(step, counting=replace(step.counting, predictions=False))
