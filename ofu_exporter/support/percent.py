"""Writes ratios as people read them: 0.412 as 41.2%."""

from __future__ import annotations


def percent(ratio: float | None, unknown: str = "none") -> str:
    """A ratio in percent, to one decimal; `unknown` for None."""
    return unknown if ratio is None else f"{ratio:.1%}"
