"""Fits text into cells of a terminal, escaped and cut or padded to a width, and says how its styles look."""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import NamedTuple

from ofu_exporter.values.text import shown


class Segment(NamedTuple):
    """Some text in one style, which is a name of STYLES."""

    text: str
    style: str = ""


class Look(NamedTuple):
    """How a style looks. Words or the characters of a bar say the same as the colours."""

    css: str
    """On the screen, in textual's CSS."""
    codes: str
    """In plain text: parameters of the terminal's sequence SGR (ECMA-48)."""


_SOFT = Look("color: $text-muted;", "2")
STYLES = {
    "title": Look("text-style: bold;", "1"),
    "strong": Look("text-style: bold;", "1"),
    "head": _SOFT,
    "soft": _SOFT,
    "used": Look("color: $success;", "32"),
    "clock": Look("color: $warning;", "33"),
    "no_tensor": Look("color: $primary;", "34"),
    "empty_sms": Look("color: $secondary;", "36"),
    "rest": _SOFT,
    "line": Look("color: $success;", "32"),
    "good": Look("color: $text-success;", "32"),
    "bad": Look("color: $text-error; text-style: bold;", "1;31"),
    "warn": Look("color: $text-warning;", "33"),
    "chosen": Look("background: $block-cursor-background; color: $block-cursor-foreground;", "7"),
}
"""By name: in the colours of textual's themes, and in plain text in the terminal's own."""
Line = list[Segment]

MORE = "\u2026"
"""The sign for text that was cut off."""
_DOMAIN = re.compile(r"^([A-Za-z][^. ]*)\.[^ ]*")
"""After a node's name, which no number begins."""


def width_of(text: str) -> int:
    """How many cells a terminal takes for a text."""
    return len(text) if text.isascii() else sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text, escaped, cut to a width."""
    text = shown(text)
    if width_of(text) <= width:
        return text
    widths = itertools.accumulate(map(_letter_width, text))
    letters = sum(1 for _ in itertools.takewhile(lambda used: used < width, widths))
    return text[:letters] + MORE if width > 0 else ""


def fit(text: str, width: int, to_the_right: bool = False) -> str:
    """The text, escaped, cut or padded to a width."""
    piece = cut(text, width)
    space = " " * (width - width_of(piece))
    return space + piece if to_the_right else piece + space


def fit_ends(text: str, width: int) -> str:
    """The text, escaped, padded to a width, or without its domain or its middle: what is left tells names apart."""
    text = shown(text)
    if width_of(text) > width:
        text = _DOMAIN.sub(rf"\1{MORE}", text)
    if width_of(text) <= width or not text.replace(MORE, "").isascii():
        return fit(text, width)
    end = text[len(text) - width // 2 :]
    return cut(text, width - len(end)) + end


def line_width(line: Line) -> int:
    return sum(width_of(segment.text) for segment in line)


def fit_line(line: Line, width: int) -> Line:
    """The line, cut or padded to a width. Its texts are escaped."""
    fitting: Line = []
    left = width
    for text, style in line:
        piece = cut(text, left)
        fitting.append(Segment(piece, style))
        left -= width_of(piece)
        if piece != shown(text):
            break
    return [*fitting, Segment(" " * left)] if left else fitting
