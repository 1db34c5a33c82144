"""Looks: every style has one in each theme where colour says something, and monochrome has no colour."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ofu_exporter.terminal
from ofu_exporter.terminal.themes import THEMES, Look

FILES = Path(ofu_exporter.terminal.__file__).parent.glob("*_rows.py")
USED = {
    style
    for file in FILES
    for style in re.findall(r'"(bad|good|warn|soft|strong|used|rest)"', file.read_text())
}


def contrast(one: int, other: int) -> float:
    """The contrast of two of the 256 colours (WCAG 2.1), which xterm's ctlseqs defines from 16 on."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: int) -> float:
    if colour >= 232:
        parts = [8 + 10 * (colour - 232)] * 3
    else:
        steps = (0, 95, 135, 175, 215, 255)
        place = colour - 16
        parts = [steps[place // 36], steps[place // 6 % 6], steps[place % 6]]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (each / 255 for each in parts)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_styles_of_rows_were_found() -> None:
    assert {"bad", "good", "warn", "soft", "strong"} <= USED


@pytest.mark.parametrize("name", [name for name in THEMES if name != "monochrome"])
def test_every_style_of_a_row_has_a_look(name: str) -> None:
    assert set(THEMES[name]) >= USED


@pytest.mark.parametrize(("name", "back"), [("dark", 234), ("light", 255), ("colour-blind", 234)])
def test_words_can_be_read_on_their_background(name: str, back: int) -> None:
    for style, look in THEMES[name].items():
        if look.colour is not None and style not in ("rest", "line", "used", "clock"):
            assert contrast(look.colour, back) >= 4.5, style


def test_monochrome_has_no_colour() -> None:
    assert all(look.colour is None for look in THEMES["monochrome"].values())


def test_no_theme_has_one_of_the_colours_that_users_change() -> None:
    for theme in THEMES.values():
        assert all(look.colour is None or look.colour >= 16 for look in theme.values())


def test_a_look_as_parameters() -> None:
    assert Look(42, is_bold=True).codes == "1;38;5;42"
    assert Look(is_dim=True, is_reversed=True).codes == "2;7"
    assert Look().codes == ""
    assert Look(back=238).codes == "48;5;238"
