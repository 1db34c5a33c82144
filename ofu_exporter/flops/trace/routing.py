"""Recognises experts that are computed for every token, where each token chooses some of them.

Llama 4 of transformers repeats every token for every expert, and multiplies by 0 what was not chosen. Training
libraries compute the chosen ones alone, and those are what a model needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

aten = torch.ops.aten
CHOSEN_BY = {aten.topk: 2, aten.sort: 1, aten.argmax: 1}
"""Operators by which tokens choose, and the place of the dimension among their arguments."""


@dataclass
class ExpertChoice:
    """One operator that chooses for each token."""

    scope: str
    """The module around the one that chooses."""
    tokens: int
    experts: int
    chosen: int
    computes_all: bool = False
    """Whether all experts of every token were multiplied then."""


class Routing:
    """The choices of a forward pass."""

    def __init__(self) -> None:
        self.choices: list[ExpertChoice] = []

    def follow(self, operator: Any, args: Any, scope: str) -> None:
        """Note an operator that chooses."""
        if operator not in CHOSEN_BY or not args[0].is_floating_point() or not args[0].dim():
            return
        place = CHOSEN_BY[operator]
        dim = args[place] if len(args) > place and args[place] is not None else -1
        experts = int(args[0].shape[dim])
        chosen = {aten.topk: args[1] if len(args) > 1 else 1, aten.argmax: 1}.get(operator, experts)
        tokens = args[0].numel() // max(experts, 1)
        self.choices.append(ExpertChoice(scope, tokens, experts, int(chosen)))

    def share(self, module: str, rows: Any, weights: Any) -> Fraction:
        """The part of a product of every expert's rows with its weights that is of chosen experts.

        1 unless the last choice in the module around has as many experts as there are weights, and all of its tokens
        are among the rows of each.
        """
        inside = f"{module}.".startswith
        around = (
            each for each in reversed(self.choices) if not each.scope or inside(f"{each.scope}.")
        )
        choice = next(around, None)
        if choice is None or weights.dim() != 3 or rows.dim() != 3:
            return Fraction(1)
        executed = (*rows.shape[:2], weights.shape[0])
        if executed != (choice.experts, choice.tokens, choice.experts):
            return Fraction(1)
        choice.computes_all = choice.chosen < choice.experts
        return Fraction(choice.chosen, choice.experts)

    @property
    def computes_all(self) -> bool:
        """Whether every choice was one among experts that are all computed."""
        return bool(self.choices) and all(each.computes_all for each in self.choices)

    def warnings(self) -> set[str]:
        """What is said of experts that are all computed."""
        return {
            f"all {each.experts} experts are computed for a token, which chooses {each.chosen}: a recipe counts the "
            f"chosen ones, {each.chosen}/{each.experts} of what is executed in experts"
            for each in self.choices
            if each.computes_all
        }
