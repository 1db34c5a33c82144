"""Tables at any width: every line fits, what matters stays, and texts have room before pictures."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.terminal.cells import line_width
from ofu_exporter.terminal.table import (
    Laid,
    TableRow,
    TableSection,
    TerminalColumn,
    joined,
    lay_out,
    text_cell,
    widths,
)
from ofu_exporter.terminal.views import VIEWS, Choice, sections
from tests.helpers.every import every
from tests.helpers.scenes import many_nodes, one_node

pytestmark = pytest.mark.xdist_group("shown node")

COLUMNS = (
    TerminalColumn("a", "A", 4, 10),
    TerminalColumn("b", "B", 6, 6, rank=1),
    TerminalColumn("c", "C", 5, 40, rank=2, is_picture=True),
)


def words(laid: Laid) -> str:
    return "".join(segment.text for segment in laid.draw())


def test_the_least_important_column_goes_first() -> None:
    assert list(widths(COLUMNS, 17)) == ["a", "b", "c"]
    assert list(widths(COLUMNS, 16)) == ["a", "b"]
    assert list(widths(COLUMNS, 10)) == ["a"]
    assert list(widths(COLUMNS, 1)) == ["a"], "what has rank 0 stays"


def test_texts_grow_before_pictures() -> None:
    assert widths(COLUMNS, 23) == {"a": 10, "b": 6, "c": 5}
    assert widths(COLUMNS, 30) == {"a": 10, "b": 6, "c": 12}
    assert widths(COLUMNS, 200) == {"a": 10, "b": 6, "c": 40}


@given(st.integers(1, 300))
def test_columns_never_take_more_than_there_is(width: int) -> None:
    found = widths(COLUMNS, width)
    assert sum(found.values()) + len(found) - 1 <= max(width, 4)


@every(itertools.product(("one", "many"), VIEWS, (60, 61, 79, 80, 100, 132, 250)))
def test_every_line_of_every_view_has_the_width_of_the_screen(
    nodes: str, view: str, width: int
) -> None:
    shown = one_node() if nodes == "one" else many_nodes("node-99")
    for laid in lay_out(sections(shown, Choice(view)), width):
        assert line_width(laid.draw()) == width


@every(VIEWS)
def test_every_cell_has_the_width_that_it_is_given(view: str) -> None:
    for section in sections(many_nodes("node-99"), Choice(view)):
        for row in section.rows:
            for key, cell in row.cells.items():
                for width, side in itertools.product((4, 11, 40), (False, True)):
                    assert line_width(cell.draw(width, side)) == width, key


def test_a_row_may_say_something_in_the_place_of_its_last_columns() -> None:
    row = TableRow(
        "x",
        {"a": text_cell("1"), "b": joined(("lost: ", "bad"), ("why", "")), "c": text_cell("no")},
        list,
    )
    (_, laid) = lay_out([TableSection("T", COLUMNS, [row._replace(rest_from="b")])], 30)
    assert words(laid).rstrip() == "1    lost: why"


def test_a_table_without_rows_says_so() -> None:
    (laid,) = lay_out([TableSection("Jobs", COLUMNS, [], "none here")], 30)
    assert words(laid).rstrip() == "Jobs: none here"
