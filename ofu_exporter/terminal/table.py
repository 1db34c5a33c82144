"""Lays out rows in columns for a width. If there is no room, the least important columns are left out first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ofu_exporter.terminal.cells import Line, Segment, fit, fit_ends, fit_line, line_width, width_of

GAP = 1
"""Cells between two columns."""
MEASURED_ROWS = 200
"""Number of rows whose texts decide how wide a column is."""


class TerminalColumn(NamedTuple):
    key: str
    title: str
    least: int
    """Narrowest width."""
    most: int
    """Widest, where there is room."""
    rank: int = 0
    """Columns with the highest rank are left out first; rank 0 always stays."""
    to_the_right: bool = False
    is_picture: bool = False
    """Whether the column takes the width that is left."""
    sort: str = ""
    """The letter that sorts by this column; "" = nothing does."""


class Cell(NamedTuple):
    draw: Callable[[int, bool], Line]
    """Draws it at a width, to the right or to the left."""
    order: float | str | None = None
    """What its row is sorted by."""


class TableRow(NamedTuple):
    subject: str
    """The subject, which stays the same from scene to scene."""
    cells: Mapping[str, Cell]
    details: Callable[[], list[tuple[str, str]]]
    """All that is known of it, as names and values."""
    words: str = ""
    """The text that the filter searches."""
    style: str = ""
    rest_from: str = ""
    """The cell of this column takes the rest of the line."""


class TableSection(NamedTuple):
    title: str
    columns: Sequence[TerminalColumn]
    rows: Sequence[TableRow]
    empty: str = ""
    """The text that is shown if there are no rows."""
    legend: Sequence[Segment] = ()
    """A line below the rows, about their pictures."""


class Laid(NamedTuple):
    """One line of the screen, drawn only when it is shown, and its row."""

    draw: Callable[[], Line]
    row: TableRow | None = None


def text_cell(value: str, style: str = "", order: float | str | None = None) -> Cell:
    return Cell(
        lambda width, to_the_right: [Segment(fit(value, width, to_the_right), style)], order
    )


def name_cell(value: str, style: str = "") -> Cell:
    return Cell(lambda width, _: [Segment(fit_ends(value, width), style)], value)


def picture(draw: Callable[[int], Line], order: float | None = None) -> Cell:
    return Cell(lambda width, _: draw(width), order)


def joined(*parts: tuple[str, str]) -> Cell:
    return picture(lambda width: fit_line([Segment(*part) for part in parts], width))


def widths(columns: Sequence[TerminalColumn], width: int) -> dict[str, int]:
    """The columns that there is room for, and the width of each: texts grow before pictures."""
    shown = list(columns)
    while _needed(shown) > width:
        last = max(range(len(shown)), key=lambda place: (shown[place].rank, place))
        if not shown[last].rank:
            break
        del shown[last]
    width_of_column = {column.key: column.least for column in shown}
    left = width - _needed(shown)
    for of_pictures in (False, True):
        left = _grow(
            [each for each in shown if each.is_picture is of_pictures], width_of_column, left
        )
    return width_of_column


def _grow(columns: Sequence[TerminalColumn], width_of_column: dict[str, int], left: int) -> int:
    """Share the remaining width equally among the columns that take it; returns what is left over."""
    growing = [column for column in columns if column.most > column.least]
    while left > 0 and growing:
        each = max(1, left // len(growing))
        for column in growing:
            more = min(each, column.most - width_of_column[column.key], left)
            width_of_column[column.key] += more
            left -= more
        growing = [column for column in growing if width_of_column[column.key] < column.most]
    return left


def _needed(columns: Sequence[TerminalColumn]) -> int:
    return sum(column.least for column in columns) + GAP * (len(columns) - 1)


def _natural(column: TerminalColumn, rows: Sequence[TableRow]) -> int:
    """The width of the widest text, within the column's limits."""
    cells = (row.cells.get(column.key) for row in rows[:MEASURED_ROWS] if not row.rest_from)
    drawn = (cell.draw(column.most, column.to_the_right) for cell in cells if cell)
    texts = ("".join(segment.text for segment in line).strip() for line in drawn)
    widest = max(map(width_of, texts), default=0)
    return max(column.least, min(column.most, max(widest, width_of(column.title))))


def lay_out(sections: Sequence[TableSection], width: int) -> list[Laid]:
    """Every line of these tables, each exactly as wide as that."""
    lines: list[Laid] = []
    for section in sections:
        if lines:
            lines.append(Laid(partial(_blank, width)))
        lines += _section(section, width)
    return lines


def _section(section: TableSection, width: int) -> list[Laid]:
    if not section.rows:
        line = [Segment(f"{section.title}: ", "title"), Segment(section.empty, "soft")]
        return [Laid(partial(fit_line, line, width))]
    columns = [
        column if column.is_picture else column._replace(most=_natural(column, section.rows))
        for column in section.columns
    ]
    room = widths(columns, width)
    titles = [
        segment
        for column in columns
        if column.key in room
        for segment in (
            Segment(fit(column.title, room[column.key], column.to_the_right), "head"),
            Segment(" " * GAP),
        )
    ]
    return [
        Laid(partial(fit_line, titles, width)),
        *(Laid(partial(_row, row, columns, room, width), row) for row in section.rows),
        *([Laid(partial(fit_line, [*section.legend], width))] if section.legend else []),
    ]


def _row(
    row: TableRow, columns: Sequence[TerminalColumn], room: Mapping[str, int], width: int
) -> Line:
    line: Line = []
    for column in columns:
        cell, right = row.cells.get(column.key), column.to_the_right
        if column.key == row.rest_from and cell is not None:
            return fit_line([*line, *cell.draw(max(0, width - line_width(line)), right)], width)
        if column.key not in room:
            continue
        line += cell.draw(room[column.key], right) if cell else _blank(room[column.key])
        line.append(Segment(" " * GAP))
    return fit_line(line, width)


def _blank(width: int) -> Line:
    return [Segment(" " * width)]
