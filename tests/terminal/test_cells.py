"""Text in cells: exactly as wide as the cell, whatever is in it, and nothing in it that a terminal obeys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ofu_exporter.terminal.cells import Segment, cut, fit, fit_line, line_width, width_of

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)
LATIN = st.text(
    alphabet=st.one_of(
        st.characters(min_codepoint=32, max_codepoint=0x24F),
        st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),
    )
)


@given(TEXTS, st.integers(0, 30), st.booleans())
def test_a_cell_has_its_width_and_is_printable(text: str, width: int, to_the_right: bool) -> None:
    shown = fit(text, width, to_the_right)
    assert width_of(shown) == width
    assert shown.isprintable()


@given(LATIN)
def test_a_width_is_what_another_library_takes_it_for(text: str) -> None:
    if text.isprintable():
        assert width_of(text) == cell_len(text)


@given(st.lists(TEXTS, max_size=4), st.integers(0, 30))
def test_a_line_has_its_width(texts: list[str], width: int) -> None:
    assert line_width(fit_line([Segment(text, "x") for text in texts], width)) == width


def test_what_a_terminal_obeys_is_shown_by_its_escape() -> None:
    assert fit("\x1b[2J\u202e", 16) == r"\x1b[2J\u202e   "
    assert cut("abcdef", 4) == "abc\u2026"
    assert fit("\u4e2d\u6587", 3) == "\u4e2d\u2026"
