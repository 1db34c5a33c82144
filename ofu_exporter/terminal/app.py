"""The screen of `top`: its keys and what they do, with textual. No key changes a node or ends a process of others."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.theme import Theme
from textual.widgets import Input, Static

from ofu_exporter.terminal.cells import fit_line
from ofu_exporter.terminal.dialogs import HELP, Dialog, SortDialog
from ofu_exporter.terminal.scene import Feed, Scene
from ofu_exporter.terminal.table import lay_out
from ofu_exporter.terminal.table_view import TableView, rich_style
from ofu_exporter.terminal.themes import PLAIN, THEMES
from ofu_exporter.terminal.views import SORTS, VIEWS, Choice, headline, sections

PAPER = Theme("paper", primary="#004578", background="#fafafa", surface="#f0f0f0", dark=False)
"""Lighter than textual's own light theme, on which coloured words are hard to read."""
REDRAW_SECONDS = 1.0
KEYS = (
    "g GPUs  j jobs  u users  i idle  A wrong  c compact  / filter  o sort  Enter details  "
    "e export  ? help  q quit"
)
SHORT_KEYS = "g j u i A c  / filter  o sort  ? help  q quit"
FEWEST_KEYS = "? help  q quit"
PLAYING = "Space pause  [ ] step  "


@runtime_checkable
class Steppable(Protocol):
    """A feed that can pause and move by single windows."""

    def pause(self) -> None: ...

    def step(self, windows: int) -> None: ...


class Top(App[None]):
    """The tables of a feed."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "ofu-exporter top"
    CSS = """
    #head { height: 1; }
    #foot { height: 1; color: $text-muted; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    TableView { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # Handled before all others: a widget takes its keys later, and fast typing would get out of order.
        Binding(key, action, priority=True)
        for key, action in (
            *((view.key, f"view('{name}')") for name, view in VIEWS.items()),
            ("slash", "filter"),
            ("o", "sort"),
            ("e", "export"),
            ("t", "colours"),
            ("question_mark", "help"),
            ("space", "pause"),
            ("left_square_bracket", "step(-1)"),
            ("right_square_bracket", "step(1)"),
            ("escape", "clear"),
            ("q", "leave"),
            ("ctrl+c", "quit"),
        )
    ]

    def __init__(
        self, feed: Feed, choice: Choice, colours: str, folder: Path | None = None
    ) -> None:
        """`colours` is a name in THEMES. Exports are written into `folder`, by default the current one."""
        super().__init__()
        self._feed = feed
        self._choice = choice
        self._colours = colours
        self._folder = folder or Path()
        self._scene = Scene((), "")

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """Whether our keys work now: not while the user types words, and not while a dialog is open."""
        if action.startswith("quit") or isinstance(self.screen, ModalScreen):
            return action.startswith("quit")
        return action == "clear" or not isinstance(self.focused, Input)

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield TableView()
        yield Input(placeholder="words of a row, such as a user, a job or a node", id="filter")
        yield Static(id="foot", markup=False)

    def on_mount(self) -> None:
        self.register_theme(PAPER)
        self._dress()
        self.query_one(TableView).focus()
        self._feed.start()
        self.set_interval(REDRAW_SECONDS, self.redraw)
        self.redraw()

    def redraw(self) -> None:
        """Show what the feed knows now."""
        self._scene = self._feed.scene()
        self._show()

    def _show(self) -> None:
        theme = THEMES[self._colours]
        table = self.query_one(TableView)
        width = max(20, table.scrollable_content_region.width or self.size.width)
        table.show(lay_out(sections(self._scene, self._choice), width), theme)
        head = Text(no_wrap=True)
        for text, style in fit_line(headline(self._scene, self.size.width), self.size.width):
            head.append(text, rich_style(theme.get(style, PLAIN)))
        self.query_one("#head", Static).update(head)
        self.query_one("#foot", Static).update(Text(self._foot(), no_wrap=True))

    def _foot(self) -> str:
        chosen = self._choice
        said = [VIEWS[chosen.view].title] if chosen.view != "gpus" else []
        if chosen.words:
            said.append(f"only with {chosen.words!r}")
        if chosen.sort:
            said.append(f"by {SORTS[chosen.sort]}{'' if chosen.downward else ', upward'}")
        playing = PLAYING if isinstance(self._feed, Steppable) else ""
        state = f"[{'; '.join(said)}]  " if said else ""
        fitting = (state + keys for keys in (playing + KEYS, playing + SHORT_KEYS, FEWEST_KEYS))
        return next((foot for foot in fitting if len(foot) <= self.size.width), FEWEST_KEYS)

    def _dress(self) -> None:
        self.theme = PAPER.name if self._colours == "light" else "textual-dark"

    def action_view(self, name: str) -> None:
        """Show another view; the key of the compact view leads back from it."""
        back = name == self._choice.view == "nodes"
        self._choice = self._choice._replace(view="gpus" if back else name)
        self.query_one(TableView).scroll_home(animate=False)
        self._show()

    def action_filter(self) -> None:
        """Ask for the words."""
        field = self.query_one("#filter", Input)
        field.display = True
        self.set_focus(field)  # at once, so that the next keys go there

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the words are typed."""
        self._choice = self._choice._replace(words=event.value)
        self._show()

    def on_input_submitted(self) -> None:
        """Keep the words, and go back to the rows."""
        self.query_one("#filter", Input).display = False
        self.set_focus(self.query_one(TableView))

    def action_clear(self) -> None:
        """Show all rows again."""
        self.query_one("#filter", Input).value = ""
        self._choice = self._choice._replace(words="")
        self.on_input_submitted()
        self._show()

    def action_sort(self) -> None:
        """Ask for the letter."""
        self.push_screen(SortDialog(), self._sort)

    def _sort(self, letter: str | None) -> None:
        if letter:
            self._choice = self._choice.sorted_by(letter)
            self._show()

    def action_leave(self) -> None:
        """End the screen."""
        self.exit()

    def action_help(self) -> None:
        """Say what the keys do."""
        self.push_screen(Dialog("keys", HELP))

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        """Show all that is known of a row."""
        self.push_screen(Dialog("details", message.row.details()))

    def on_table_view_resized(self) -> None:
        """Draw for the new width."""
        self._show()

    def action_colours(self) -> None:
        """Take the next theme."""
        names = list(THEMES)
        self._colours = names[(names.index(self._colours) + 1) % len(names)]
        self._dress()
        self._show()

    def action_pause(self) -> None:
        """Pause a recording, or continue it."""
        if isinstance(self._feed, Steppable):
            self._feed.pause()
            self.redraw()
        else:
            self.notify("only a recording can be paused", markup=False)

    def action_step(self, windows: int) -> None:
        """Move a recording one window back or forward."""
        if isinstance(self._feed, Steppable):
            self._feed.step(windows)
            self.redraw()
        else:
            self.notify("only a recording can move by single windows", markup=False)

    def action_export(self) -> None:
        """Write everything that is shown to a new file."""
        file = self._folder / f"ofu-top-{time.strftime('%Y%m%d-%H%M%S')}.json"
        try:
            with file.open("x", encoding="utf-8") as opened:
                json.dump(self._scene.as_data(), opened, indent=1)
        except OSError as error:
            self.notify(f"{error.strerror}: {file}", severity="error", markup=False)
        else:
            self.notify(f"written: {file}", markup=False)
