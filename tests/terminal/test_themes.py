"""Looks: every style has one in each theme where colour says something, and monochrome has no colour."""

from __future__ import annotations

import itertools
import math
import operator
import re
from pathlib import Path

import pytest

import ofu_exporter.terminal
from ofu_exporter.terminal.themes import THEMES, Look

PARTS = ("used", "clock", "no_tensor", "empty_sms", "rest")
"""Of a bar."""
SIGHTS = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no long cones": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no middle cones": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "no short cones": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What eyes without one kind of cones make of linear red, green and blue (Machado, Oliveira and Fernandes 2009)."""
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
    linear = linear_rgb(colour)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def linear_rgb(colour: int) -> list[float]:
    if colour >= 232:
        parts = [8 + 10 * (colour - 232)] * 3
    else:
        steps = (0, 95, 135, 175, 215, 255)
        place = colour - 16
        parts = [steps[place // 36], steps[place // 6 % 6], steps[place % 6]]
    return [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (each / 255 for each in parts)
    ]


def lab(colour: int, sight: str) -> tuple[float, ...]:
    """The colour in CIE L*a*b* (D65) as these eyes see it: distances are about what people call different."""
    linear = linear_rgb(colour)
    red, green, blue = (
        min(max(sum(map(operator.mul, row, linear)), 0.0), 1.0) for row in SIGHTS[sight]
    )
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        for t in (
            (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
            0.2126 * red + 0.7152 * green + 0.0722 * blue,
            (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_styles_of_rows_were_found() -> None:
    assert {"bad", "good", "warn", "soft", "strong"} <= USED


@pytest.mark.parametrize("name", [name for name in THEMES if name != "monochrome"])
def test_every_style_of_a_row_has_a_look(name: str) -> None:
    assert set(THEMES[name]) >= USED


@pytest.mark.parametrize(("name", "back"), [("dark", 234), ("light", 255), ("colour-blind", 234)])
def test_words_can_be_read_on_their_background(name: str, back: int) -> None:
    for style, look in THEMES[name].items():
        if look.colour is not None and style not in ("line", *PARTS):
            assert contrast(look.colour, back) >= 4.5, style


@pytest.mark.parametrize(("name", "least"), [("dark", 15), ("light", 15), ("colour-blind", 30)])
@pytest.mark.parametrize("sight", SIGHTS)
def test_the_parts_of_a_bar_differ_for_all_eyes(name: str, least: int, sight: str) -> None:
    seen = [lab(colour, sight) for part in PARTS if (colour := THEMES[name][part].colour)]
    assert len(seen) == len(PARTS)
    assert min(math.dist(one, other) for one, other in itertools.combinations(seen, 2)) >= least


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
