"""Lays rows of text out as a table: for a terminal, or in Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from ofu_exporter.values.text import shown

LEFT, RIGHT = "<", ">"
LONGEST = 64
"""Characters of a cell in a terminal, but for the last of a row: a name must not push columns out of sight."""


class TextTable(NamedTuple):
    """A table of texts. A column is LEFT or RIGHT."""

    heads: Sequence[str]
    sides: Sequence[str]
    rows: Sequence[Sequence[str]]
    ids: Sequence[str] = ()
    """Of the rows of a page, so that it can lead to them."""

    def plain(self) -> str:
        """For a terminal; control characters in cells are escaped."""
        cells = [[*map(_cut, row[:-1]), shown(row[-1])] for row in (self.heads, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            "  ".join(
                f"{cell:{side}{width}}"
                for cell, side, width in zip(row, self.sides, widths, strict=True)
            ).rstrip()
            for row in cells
        )

    def markdown(self) -> str:
        rule = ["---:" if side == RIGHT else "---" for side in self.sides]
        rows = [[_of_markdown(cell) for cell in row] for row in (self.heads, *self.rows)]
        return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))


TextBlock = str | TextTable


def text(blocks: Iterable[TextBlock]) -> str:
    """Lines and tables for a terminal, one below another. A name from outside cannot begin a line of its own."""
    return "\n".join(one.plain() if isinstance(one, TextTable) else shown(one) for one in blocks)


RowT = TypeVar("RowT")
Column = tuple[str, str, Callable[[RowT], str]]
"""A column of a table about rows of some kind: its head, LEFT or RIGHT, and what writes the cell of a row."""


def table(columns: Sequence[Column[RowT]], rows: Iterable[RowT]) -> TextTable:
    """The cells of these columns, row by row."""
    cells = [[write(row) for _, _, write in columns] for row in rows]
    return TextTable([head for head, _, _ in columns], [side for _, side, _ in columns], cells)


def _cut(cell: str) -> str:
    safe = shown(cell)
    return safe if len(safe) <= LONGEST else f"{safe[: LONGEST - 1]}…"


_BRACKET = re.compile(r"(\\*)\[")
"""A bracket with the backslashes before it, each of which would escape ours."""


def markdown_words(words: str) -> str:
    """Words of a sentence in Markdown, with names from outside escaped: they become neither elements nor links."""
    return _BRACKET.sub(r"\1\1\\[", shown(words).replace("<", "&lt;"))


def _of_markdown(cell: str) -> str:
    safe = shown(cell).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return safe.replace("*", "\\*").replace("_", "\\_").replace("`", "\\`").replace("[", "\\[")
