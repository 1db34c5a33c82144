"""The widget that shows tables. It draws only visible lines, and has a chosen row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment as RichSegment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ofu_exporter.terminal.cells import STYLES
from ofu_exporter.terminal.table import Laid, TableRow


class TableView(ScrollView, can_focus=True):
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"look--{style}" for style in STYLES}
    DEFAULT_CSS = "\n".join(
        f"TableView > .look--{style} {{ {look.css} }}" for style, look in STYLES.items()
    )
    HELP = """\
**The bar** is the peak of a GPU: what is used, and in which parts the rest is lost; Enter names them.
**±** is twice the standard error of the last window, in points.
**The line** is the OFU of the last hour; where nothing was measured there is none.
A dash is not measured.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("pageup", "move_page(-1)", "page up", show=False),
        Binding("pagedown", "move_page(1)", "page down", show=False),
        Binding("home", "move(-1000000)", "first", show=False),
        Binding("end", "move(1000000)", "last", show=False),
        Binding("enter", "choose", "details"),
    ]

    class Chosen(Message):
        """A row whose details are wanted."""

        def __init__(self, row: TableRow) -> None:
            super().__init__()
            self.row = row

    class Resized(Message):
        """The width to draw for has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[Laid] = ()
        self._cursor = 0
        self._subject = ""

    def look(self, style: str) -> Style:
        if style not in STYLES:
            return Style()
        return self.get_component_rich_style(f"look--{style}", partial=True)

    def show(self, lines: Sequence[Laid]) -> None:
        """Show other lines. The chosen row stays chosen, even in another place."""
        self._lines = lines
        rows = [place for place, laid in enumerate(lines) if laid.row is not None]
        same = [place for place in rows if self._subject_at(place) == self._subject]
        near = min(rows, key=lambda place: abs(place - self._cursor), default=0)
        self._cursor = same[0] if same else near
        self._subject = self._subject_at(self._cursor)
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    @property
    def chosen(self) -> TableRow | None:
        """The chosen row; None where there is none."""
        return self._lines[self._cursor].row if self._cursor < len(self._lines) else None

    def _subject_at(self, place: int) -> str:
        row = self._lines[place].row if 0 <= place < len(self._lines) else None
        return row.subject if row is not None else ""

    def render_line(self, y: int) -> Strip:
        place = y + self.scroll_offset.y
        width = self.size.width
        if place >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        laid = self._lines[place]
        base = self.rich_style
        if laid.row is not None and place == self._cursor:
            base += self.look("chosen")
        drawn = [RichSegment(text, base + self.look(style)) for text, style in laid.draw()]
        return Strip(drawn, width).adjust_cell_length(width, base)

    def action_move(self, rows: int) -> None:
        places = [place for place, laid in enumerate(self._lines) if laid.row is not None]
        if not places:
            return
        now = places.index(self._cursor) if self._cursor in places else 0
        self._choose(places[max(0, min(len(places) - 1, now + rows))])

    def action_move_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Chosen(self.chosen))

    def _choose(self, place: int) -> None:
        self._cursor = place
        self._subject = self._subject_at(place)
        height, top = self.size.height, self.scroll_offset.y
        first = place - 1 if place and self._lines[place - 1].row is None else place
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif place >= top + height:
            self.scroll_to(y=place - height + 1, animate=False)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Choose the row under the pointer; details of it with a second click."""
        place = event.y + self.scroll_offset.y
        if 0 <= place < len(self._lines) and self._lines[place].row is not None:
            was_chosen = place == self._cursor
            self._choose(place)
            if was_chosen:
                self.action_choose()

    def on_resize(self) -> None:
        self.post_message(self.Resized())
