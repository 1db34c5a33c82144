"""Bars and lines of characters: their parts add up, and a gap is no zero."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import ofu_exporter
from ofu_exporter.terminal import pictures
from ofu_exporter.terminal.pictures import (
    CLOCK,
    EMPTY_SMS,
    LEGEND,
    LEVELS,
    NO_TENSOR,
    REST,
    USED,
    bar,
    level,
    spark,
)
from ofu_exporter.values.losses import Loss, Losses
from tests.helpers.every import every

RATIOS = st.floats(0, 1.2)


FOUR = (Loss.CLOCK, Loss.NO_TENSOR, Loss.EMPTY_SMS, Loss.IDLE)


def drawn(used: float | None, losses: Losses, width: int) -> str:
    return "".join(segment.text for segment in bar(used, losses, width))


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(1, 100))
def test_a_bar_is_full_and_each_of_its_borders_is_within_half_a_cell(
    cuts: list[float], width: int
) -> None:
    levels = [*sorted(cuts), 1.0]
    shares = [after - before for before, after in zip([0.0, *levels], levels, strict=False)]
    text = drawn(shares[0], dict(zip(FOUR, shares[1:], strict=True)), width)
    assert len(text) == width
    assert list(text) == sorted(text, key=(USED + CLOCK + NO_TENSOR + EMPTY_SMS + REST).index)
    cells = 0
    for character, reached in zip((USED, CLOCK, NO_TENSOR, EMPTY_SMS), levels, strict=False):
        cells += text.count(character)
        assert abs(cells - reached * width) <= 0.5 or (cells == 1 and reached * width < 1)


def test_a_bar_in_characters() -> None:
    quarters = dict.fromkeys((Loss.CLOCK, Loss.NO_TENSOR, Loss.EMPTY_SMS), 0.25)
    assert drawn(0.25, quarters, 8) == USED * 2 + CLOCK * 2 + NO_TENSOR * 2 + EMPTY_SMS * 2
    merged = {Loss.CLOCK: -0.1, Loss.IDLE: 0.25, Loss.ENGINE_WITHOUT_TENSOR: 0.35}
    assert drawn(0.5, merged, 8) == USED * 4 + NO_TENSOR * 2 + REST * 2
    assert drawn(0.0, {Loss.WITHOUT_TENSOR: 1.0}, 4) == REST * 4
    assert drawn(0.001, {}, 4) == USED + REST * 3
    assert drawn(1.1, {Loss.CLOCK: -0.1}, 4) == USED * 4
    assert drawn(None, quarters, 4) == "    ", "not measured is no empty bar"


def test_the_legend_has_the_words_of_the_pages() -> None:
    text = "".join(segment.text for segment in LEGEND)
    assert text == "used █  clock ▓  no tensor work ▒  empty SMs ░  idle ·"
    page = (Path(ofu_exporter.__file__).parent / "templates/parts.html").read_text()
    for words in ("used", "clock", "no tensor work", "empty SMs", "idle"):
        assert f'"{words}"' in page


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


@every([USED, CLOCK, NO_TENSOR, EMPTY_SMS, REST, *LEVELS, pictures.AWAY, "\u2013", "\u2026"])
def test_every_character_has_another_one_in_ascii(letter: str) -> None:
    assert letter.translate(pictures.PLAIN).isascii()
