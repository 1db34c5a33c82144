"""The numbers of settings: what they refuse that pydantic takes for numbers."""

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


Number = Annotated[float, BeforeValidator(_no_truth)]
WholeNumber = Annotated[int, BeforeValidator(_no_truth)]
Ratio = Annotated[Number, AfterValidator(_sizeable)]
"""A part of something; its bounds are its setting's."""
