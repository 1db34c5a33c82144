"""Nothing that a terminal obeys gets through, and what people read stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.support.plain_text import escaped, escaped_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("müller, 日本", "müller, 日本"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_not_printed_is_written_out(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.text(st.characters()))
def test_the_result_is_printable_whatever_the_text(text: str) -> None:
    assert escaped(text).isprintable()
    assert escaped_lines(text).count("\n") == text.count("\n")
    assert escaped(escaped(text)) == escaped(text)
