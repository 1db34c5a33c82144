"""The looks of styles: themes for dark and light terminals, for colour-blind users, and without colours."""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """How a style looks."""

    colour: int | None = None
    """One of the 256 colours of terminals, but not of the first 16, which users redefine; None = the terminal's
    own."""
    is_bold: bool = False
    is_dim: bool = False
    is_reversed: bool = False
    back: int | None = None
    """Colour behind the text."""

    @property
    def codes(self) -> str:
        """The look as parameters of the terminal's sequence SGR (ECMA-48), "" for none."""
        codes = [
            *(["1"] if self.is_bold else []),
            *(["2"] if self.is_dim else []),
            *(["7"] if self.is_reversed else []),
            *([f"38;5;{self.colour}"] if self.colour is not None else []),
            *([f"48;5;{self.back}"] if self.back is not None else []),
        ]
        return ";".join(codes)


Theme = dict[str, Look]
CHOSEN = "chosen"
"""The style of the chosen row."""
_SHAPE: Theme = {"title": Look(is_bold=True), "strong": Look(is_bold=True)}

THEMES: dict[str, Theme] = {
    "dark": _SHAPE
    | {
        "head": Look(246),
        "soft": Look(246),
        "used": Look(42),
        "clock": Look(214),
        "no_tensor": Look(68),
        "empty_sms": Look(24),
        "rest": Look(240),
        "line": Look(42),
        "good": Look(42),
        "bad": Look(210),
        "warn": Look(214),
        CHOSEN: Look(back=238),
    },
    "light": _SHAPE
    | {
        "head": Look(241),
        "soft": Look(241),
        "used": Look(29),
        "clock": Look(136),
        "no_tensor": Look(25),
        "empty_sms": Look(110),
        "rest": Look(248),
        "line": Look(29),
        "good": Look(22),
        "bad": Look(124),
        "warn": Look(94),
        CHOSEN: Look(back=252),
    },
    "colour-blind": _SHAPE  # colours that all common kinds tell apart (Okabe and Ito)
    | {
        "head": Look(246),
        "soft": Look(246),
        "used": Look(117),
        "clock": Look(208),
        "no_tensor": Look(26),
        "empty_sms": Look(228),
        "rest": Look(240),
        "line": Look(117),
        "good": Look(74),
        "bad": Look(214, is_bold=True),
        "warn": Look(227),
        CHOSEN: Look(back=238),
    },
    "monochrome": _SHAPE
    | {
        "head": Look(is_dim=True),
        "soft": Look(is_dim=True),
        "rest": Look(is_dim=True),
        "bad": Look(is_reversed=True),
        "warn": Look(is_bold=True),
        CHOSEN: Look(is_reversed=True),
    },
}
"""Each look by the style's name. Words or the characters of a bar say the same as the colours."""
PLAIN = Look()
