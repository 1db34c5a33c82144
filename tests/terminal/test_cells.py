"""Text in cells: exactly as wide as the cell, whatever is in it, and nothing in it that a terminal obeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ofu_exporter.terminal.cells import Segment, cut, fit, fit_ends, fit_line, line_width, width_of

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


@given(TEXTS, st.integers(0, 60))
def test_a_name_has_its_width(text: str, width: int) -> None:
    assert width_of(fit_ends(text, width)) == width


@pytest.mark.parametrize(
    ("name", "width", "text"),
    [
        ("gpu-node-001.cluster.example.com GPU 7", 38, "gpu-node-001.cluster.example.com GPU 7"),
        ("gpu-node-001.cluster.example.com GPU 7", 20, "gpu-node-001… GPU 7 "),
        ("gke-h100-pool-1-a1b2c3d4-x9y8 GPU 7", 20, "gke-h100-…x9y8 GPU 7"),
        ("10.0.12.34:9846", 10, "10.0…:9846"),
    ],
)
def test_what_tells_names_apart_is_cut_last(name: str, width: int, text: str) -> None:
    assert fit_ends(name, width) == text


@given(st.lists(TEXTS, max_size=4), st.integers(0, 30))
def test_a_line_has_its_width(texts: list[str], width: int) -> None:
    assert line_width(fit_line([Segment(text, "x") for text in texts], width)) == width


def test_what_a_terminal_obeys_is_shown_by_its_escape() -> None:
    assert fit("\x1b[2J\u202e", 16) == r"\x1b[2J\u202e   "
    assert cut("abcdef", 4) == "abc\u2026"
    assert fit("\u4e2d\u6587", 3) == "\u4e2d\u2026"
