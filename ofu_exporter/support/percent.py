"""Makes ratios, and writes them as people read them: 0.412 as 41.2%."""

from __future__ import annotations


def percent(ratio: float | None, unknown: str = "none") -> str:
    """A ratio in percent, to one decimal, without a sign where it is shown as 0; `unknown` for None."""
    text = unknown if ratio is None else f"{ratio:.1%}"
    return "0.0%" if text == "-0.0%" else text


def ratio(numerator: float, denominator: float) -> float | None:
    """A quotient; None where its denominator is 0."""
    return numerator / denominator if denominator > 0 else None
