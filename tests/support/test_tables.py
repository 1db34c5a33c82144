"""Tables as text and as HTML."""

from __future__ import annotations

import pytest

from ofu_exporter.support.tables import LEFT, RIGHT, TextTable, markdown_words
from tests.helpers.page_parts import text_table


def test_a_table_has_heads_that_name_its_columns_and_rows() -> None:
    table = TextTable(("job", "OFU"), (LEFT, RIGHT), [("<b>", "5 %")])
    made = text_table(table, "Jobs")
    assert '<th scope="col" class="num">OFU</th>' in made
    assert '<th scope="row">&lt;b&gt;</th>' in made
    assert '<td class="num">5 %</td>' in made


def test_of_a_long_name_in_a_terminal_the_end_is_cut_and_never_that_of_the_last_column() -> None:
    table = TextTable(("a", "b", "c"), (LEFT, LEFT, LEFT), [("x" * 64, "y" * 65, "z" * 65)])
    assert table.plain().split()[3:] == ["x" * 64, "y" * 63 + "…", "z" * 65]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("[a](http://b)", r"\[a](http://b)"),
        (r"\[a](http://b)", r"\\\[a](http://b)"),
        (r"\\[a](http://b)", r"\\\\\[a](http://b)"),
        ("<b>", "&lt;b>"),
        (r"C:\x", r"C:\x"),
    ],
)
def test_no_name_becomes_a_link_or_an_element_in_markdown(name: str, written: str) -> None:
    assert markdown_words(name) == written
