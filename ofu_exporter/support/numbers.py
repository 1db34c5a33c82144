"""The numbers of settings: what they refuse that pydantic takes for numbers.

Bounds of a number in an optional field or in a collection stand before these checks in its `Annotated`: pydantic writes
those after them into a schema under names that no reader of schemas knows. A field of such a type states no bounds of
its own, because of two bounds of a kind pydantic keeps one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

LEAST_RATIO = 1e-6
"""A smaller one is a slip, and what is divided by it may be infinite."""


def _no_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


def _sizeable(value: float) -> float:
    if 0 < value < LEAST_RATIO:
        raise ValueError(f"{value:g} is neither 0 nor at least {LEAST_RATIO:g}")
    return value


NO_TRUTH = BeforeValidator(_no_truth)
SIZEABLE = AfterValidator(_sizeable)
Number = Annotated[float, NO_TRUTH]
WholeNumber = Annotated[int, NO_TRUTH]
Ratio = Annotated[float, NO_TRUTH, SIZEABLE]
"""A part of something; its bounds are its setting's."""
