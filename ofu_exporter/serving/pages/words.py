"""Says verdicts, reasons and times in words."""

from __future__ import annotations

from ofu_exporter.serving.pages.elements import Html, element
from ofu_exporter.support.durations import lasting
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.reported import Verdict

NONE = "\u2013"
"""Stands where there is no number."""


def ago(seconds: float | None) -> str:
    """How long ago something was."""
    return "never" if seconds is None else f"{lasting(seconds)} ago"


def reason(why: Reason, detail: str = "") -> str:
    """Why something is not measured, and what to do about it."""
    more = f" ({detail})" if detail else ""
    return f"{why.value.replace('_', ' ')}{more}: {why.advice}"


def cause(slug: str) -> str:
    """A cause by the words of its slug, or two causes together."""
    return slug.replace("_", " ").replace("+", " and ")


def verdict(found: Verdict, mfu: float | None, ofu: float | None) -> Html:
    """How a reported MFU compares with OFU."""
    points = "" if mfu is None or ofu is None else f"{100 * abs(mfu - ofu):.0f} points"
    said = {
        Verdict.AGREE: ("good", "agrees with OFU"),
        Verdict.MFU_ABOVE_OFU: ("bad", f"MFU too high by {points}" if points else "MFU too high"),
        Verdict.MFU_BELOW_OFU: ("bad", f"MFU {points} below OFU" if points else "MFU below OFU"),
        Verdict.INSUFFICIENT_DATA: ("", "not compared yet"),
    }
    kind, words = said[found]
    return element("span", words, _class=f"chip {kind}".strip())
