"""Reads JSON of measured values from a peer that may say anything: numbers that none can have are errors."""

from __future__ import annotations

import json
from typing import Any

LARGEST, MOST_DIGITS = 1e18, 64
"""Numbers up to this size can be added and multiplied without an overflow; the peak of a GPU is a hundredth of it."""


def measured_json(content: bytes) -> Any:
    """What the text says. Raises ValueError, and RecursionError where it is nested too deep."""
    return json.loads(content, parse_float=_number, parse_int=_number, parse_constant=_number)


def _number(text: str) -> float | int:
    """Raises ValueError for NaN, infinity and numbers larger than any measured value."""
    if len(text) > MOST_DIGITS or not abs(number := float(text)) <= LARGEST:
        raise ValueError(f"{text[:MOST_DIGITS]} cannot be a measured number")
    return number if {*text} & set(".eE") else int(text)
