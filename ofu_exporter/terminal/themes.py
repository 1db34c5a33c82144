"""The styles of texts and bars: in the colours of textual's themes, and in plain text in the terminal's own."""

from __future__ import annotations

from typing import NamedTuple


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
