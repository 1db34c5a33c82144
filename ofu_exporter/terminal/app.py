"""The screen of `top`: its tables and keys, with textual. No key changes a node or ends a process of others."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.segment import Segment as RichSegment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, HelpPanel, Input, Static

from ofu_exporter.terminal.cells import STYLES, fit_line
from ofu_exporter.terminal.scene import Feed, Scene
from ofu_exporter.terminal.table import Laid, TableRow, lay_out
from ofu_exporter.terminal.views import SORTS, VIEWS, Choice, headline, sections
from ofu_exporter.values.text import shown


class TableView(ScrollView, can_focus=True):
    """Shows tables. It draws only visible lines, and has a chosen row."""

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


REDRAW_SECONDS = 1.0


class Top(App[None]):
    TITLE = "ofu-exporter top"
    CSS = """
    #head, #choice { height: 1; }
    #choice { color: $text-muted; display: none; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    #details { display: none; height: auto; max-height: 60%; border-top: solid $primary; padding: 0 1; }
    TableView { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # Handled before all others: a widget takes its keys later, and fast typing would get out of order.
        *(
            Binding(key, action, description, priority=True)
            for key, action, description in (
                ("question_mark", "help", "help"),
                ("q", "quit", "quit"),
                ("slash", "filter", "only rows with words"),
                ("escape", "clear", "all rows"),
                ("o", "sort", "sort"),
                *((view.key, f"view('{name}')", view.title) for name, view in VIEWS.items()),
                ("t", "change_theme", "colours"),
                ("e", "export", "write to a file"),
            )
        ),
        Binding("enter", "leave_words", priority=True, show=False),
    ]

    def __init__(self, feed: Feed, choice: Choice, folder: Path | None = None) -> None:
        """Exports are written into `folder`, by default the current one."""
        super().__init__()
        self._feed = feed
        self._choice = choice
        self._folder = folder or Path()
        self._scene = Scene((), "")

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """Whether our keys work now: not while the user types words, and not in one of textual's own dialogs."""
        if action == "quit":
            return not isinstance(self.focused, Input)
        if len(self.screen_stack) > 1:
            return False
        is_typing = isinstance(self.focused, Input)
        return action == "clear" or is_typing == (action == "leave_words")

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield TableView()
        yield VerticalScroll(Static(markup=False), id="details")
        yield Static(id="choice", markup=False)
        yield Input(placeholder="words of a row, such as a user, a job or a node", id="filter")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        table = self.query_one(TableView).focus()
        self._feed.start()
        table.set_interval(REDRAW_SECONDS, self.redraw)  # ends with the table, before the program
        self.theme_changed_signal.subscribe(self, lambda _: self._show())
        self.redraw()

    def redraw(self) -> None:
        self._scene = self._feed.scene()
        self._show()

    def _show(self) -> None:
        table = self.query_one(TableView)
        width = max(20, table.scrollable_content_region.width or self.size.width)
        table.show(lay_out(sections(self._scene, self._choice), width))
        head = Text(no_wrap=True)
        for text, style in fit_line(headline(self._scene, self.size.width), self.size.width):
            head.append(text, table.look(style))
        self.query_one("#head", Static).update(head)
        line = self.query_one("#choice", Static)
        line.update(Text(self._chosen(), no_wrap=True))
        line.display = bool(self._chosen())

    def _chosen(self) -> str:
        choice = self._choice
        words = [VIEWS[choice.view].title] if choice.view != "gpus" else []
        if choice.words:
            words.append(f"only with {choice.words!r}")
        if choice.sort:
            words.append(f"by {SORTS[choice.sort]}{'' if choice.downward else ', upward'}")
        return "; ".join(words)

    def action_view(self, name: str) -> None:
        """Show another view; the key of the compact view leads back from it."""
        back = name == self._choice.view == "nodes"
        self._choice = self._choice._replace(view="gpus" if back else name)
        self.query_one(TableView).scroll_home(animate=False)
        self._show()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        self.set_focus(field)  # at once, so that the next keys go there

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self._choice = self._choice._replace(words=event.value)
            self._show()

    def action_leave_words(self) -> None:
        self.query_one("#filter", Input).display = False
        self.set_focus(self.query_one(TableView))

    def action_clear(self) -> None:
        self.action_hide_help_panel()
        self.query_one("#details").display = False
        self.query_one("#filter", Input).value = ""
        self._choice = self._choice._replace(words="")
        self.action_leave_words()
        self._show()

    def action_sort(self) -> None:
        """Ask for what to sort by, in textual's list of commands."""
        commands = [(name, partial(self._sort, letter)) for letter, name in SORTS.items()]
        self.search_commands(commands, placeholder="Sort by (again: the other way round)")

    def _sort(self, letter: str) -> None:
        self._choice = self._choice.sorted_by(letter)
        self._show()

    def action_help(self) -> None:
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        """Show all that is known of a row, or hide it."""
        panel = self.query_one("#details")
        panel.display = not panel.display
        rows = Table.grid(padding=(0, 1))
        for name, value in message.row.details():
            rows.add_row(Text(shown(name)), Text(shown(value)))
        panel.query_one(Static).update(rows)

    def on_table_view_resized(self) -> None:
        with suppress(NoMatches):  # the program ends meanwhile, and its tables are gone
            self._show()

    def action_export(self) -> None:
        file = self._folder / f"ofu-top-{time.strftime('%Y%m%d-%H%M%S')}.json"
        try:
            with file.open("x", encoding="utf-8") as opened:
                json.dump(self._scene.as_data(), opened, indent=1)
        except OSError as error:
            self.notify(f"{error.strerror}: {file}", severity="error", markup=False)
        else:
            self.notify(f"written: {file}", markup=False)
