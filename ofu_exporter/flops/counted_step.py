"""Counts one step of a job, with the changes that a mistake would make to its terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from ofu_exporter.flops import Counting, Lengths, Model, Part, Passes, Recompute, Term, conventions
from ofu_exporter.flops.passes import plan
from ofu_exporter.flops.terms import total

Edit = Callable[[Term], Term | None]
"""Changes a term of a count, or leaves it out."""


@dataclass(frozen=True)
class CountedStep:
    """One step of a job, from which FLOPs are counted."""

    model: Model
    lengths: Lengths
    counting: Counting
    passes: Passes
    edits: tuple[Edit, ...] = ()
    """Changes of the terms before they are summed."""
    convention: str = conventions.OWN

    @cached_property
    def terms(self) -> Sequence[Term]:
        """The terms of the convention after the edits."""
        terms = conventions.load(self.convention).terms(self.model, self.counting)
        for edit in self.edits:
            terms = [each for each in map(edit, terms) if each is not None]
        return terms

    def flops(self, recompute: Recompute | None = None) -> float:
        """FLOPs of a step; with `recompute`, including those of recomputed activations."""
        layers = None if recompute is None else self.passes.recompute_layers
        chosen = recompute or Recompute.NONE
        passes = replace(self.passes, recompute=chosen, recompute_layers=layers)
        units = cache(self.lengths.with_fixed(self.model.lengths).of)  # many terms have one extent
        once = total(
            units(run.term.extent) * run.term.flops * (run.model + run.recomputed)
            for run in plan(self.terms, passes, self.model.towers, self.model.layers)
            if run.term.flops
        )
        return float(once * self.passes.repeats)

    def edited(self, edit: Edit) -> CountedStep:
        return replace(self, edits=(*self.edits, edit))

    def has(self, part: Part) -> bool:
        return any(term.part is part for term in self.terms)
