"""Bars and lines of characters: their parts add up, and a gap is no zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.terminal import pictures
from ofu_exporter.terminal.pictures import CLOCK, LEVELS, REST, USED, bar, level, spark

RATIOS = st.floats(0, 1.2)


def drawn(used: float | None, active: float | None, width: int) -> str:
    return "".join(segment.text for segment in bar(used, active, width))


@given(RATIOS, st.none() | RATIOS, st.integers(0, 100))
def test_a_bar_is_full_and_its_parts_are_within_half_a_cell(
    used: float, active: float | None, width: int
) -> None:
    text = drawn(used, active, width)
    assert len(text) == width
    if width and used > 0:
        cells = min(used, 1.0) * width
        assert abs(text.count(USED) - max(1.0, cells)) <= 0.5
    if width and active is not None and active > used > 0:
        both = text.count(USED) + text.count(CLOCK)
        assert abs(both - max(1.0, min(active, 1.0) * width)) <= 0.5


def test_a_bar_in_characters() -> None:
    assert drawn(0.5, 0.75, 8) == USED * 4 + CLOCK * 2 + REST * 2
    assert drawn(0.0, 0.0, 4) == REST * 4
    assert drawn(0.001, 0.001, 4) == USED + REST * 3
    assert drawn(1.1, 1.0, 4) == USED * 4
    assert drawn(None, 0.5, 4) == "    ", "not measured is no empty bar"


def test_a_line_has_gaps_where_nothing_was_measured() -> None:
    text = "".join(segment.text for segment in spark([0.0, None, 0.5, 1.0], 6))
    assert text == f"  {LEVELS[0]} {LEVELS[4]}{LEVELS[7]}"
    assert [level(ratio) for ratio in (None, 0.0, 0.124, 0.125, 1.5)] == [
        " ",
        *(LEVELS[0], LEVELS[0], LEVELS[1], LEVELS[7]),
    ]


@given(st.lists(st.none() | RATIOS, max_size=90), st.integers(0, 120))
def test_a_line_has_its_width_and_shows_every_gap_that_is_wide_enough(
    points: list[float | None], width: int
) -> None:
    text = "".join(segment.text for segment in spark(points, width))
    assert len(text) == width
    if all(point is None for point in points):
        assert text.strip() == ""
    if points and width >= len(points):
        assert [each == " " for each in text[width - len(points) :]] == [p is None for p in points]


@pytest.mark.parametrize("letter", [USED, CLOCK, REST, *LEVELS, pictures.AWAY, "\u2013", "\u2026"])
def test_every_character_has_another_one_in_ascii(letter: str) -> None:
    assert letter.translate(pictures.PLAIN).isascii()
