"""Says verdicts, reasons and times in words."""

from __future__ import annotations

from typing import NamedTuple

from ofu_exporter.support.durations import lasting
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.reported import Verdict


class Chip(NamedTuple):
    """A verdict in words, and whether it is good, bad or neither, which is its colour."""

    kind: str
    words: str


def ago(seconds: float) -> str:
    """How long ago something was."""
    return f"{lasting(seconds)} ago"


def reason(why: Reason, detail: str = "") -> str:
    """Why something is not measured, and what to do about it."""
    more = f" ({detail})" if detail else ""
    return f"{why.value.replace('_', ' ')}{more}: {why.advice}"


def verdict(compared: Verdict, mfu: float | None, ofu: float | None) -> Chip:
    """How a reported MFU compares with OFU."""
    points = "" if mfu is None or ofu is None else f"{100 * abs(mfu - ofu):.0f} points"
    return {
        Verdict.AGREE: Chip("good", "agrees with OFU"),
        Verdict.MFU_ABOVE_OFU: Chip(
            "bad", f"MFU too high by {points}" if points else "MFU too high"
        ),
        Verdict.MFU_BELOW_OFU: Chip(
            "bad", f"MFU {points} below OFU" if points else "MFU below OFU"
        ),
        Verdict.INSUFFICIENT_DATA: Chip("", "not compared yet"),
    }[compared]
