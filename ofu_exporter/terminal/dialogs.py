"""The dialogs above the tables: details of a row, the keys, and the letters to sort by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from ofu_exporter.terminal.cells import fit, wrapped
from ofu_exporter.terminal.views import SORTS, VIEWS

NAME_CELLS = 22
HELP = [
    *((view.key, view.title) for view in VIEWS.values()),
    ("/", "show only rows with these words; Esc shows all again"),
    ("o + letter", "sort by " + ", ".join(f"{key} {name}" for key, name in SORTS.items())),
    ("Enter", "everything known about the chosen row"),
    ("e", "write everything shown to a file, as JSON"),
    ("t", "other colours, or none"),
    ("Space", "pause a recording, or continue it"),
    ("[ and ]", "move a recording one window back or forward"),
    ("q", "quit"),
    ("", ""),
    (
        "the bar",
        "is the peak of a GPU: what is used, and in which parts the rest is lost; Enter names them",
    ),
    ("\u00b1", "is twice the standard error of the last window, in points"),
    ("the line", "is the OFU of the last hour; where nothing was measured there is none"),
    ("\u2013", "is not measured"),
]


class Dialog(ModalScreen[None]):
    """Names and values that can be scrolled. Any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", "close"),
    ]
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog VerticalScroll { width: 90%; max-width: 120; height: auto; max-height: 90%;
        border: round $primary; padding: 0 1; background: $surface; }
    Dialog Static { height: auto; }
    """

    def __init__(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._heading = title
        self._rows = rows

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = self._heading
            box.border_subtitle = "Esc"
            yield Static(Text(), markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        """Break the lines for the width that there is."""
        box = min(120, round(self.size.width * 0.9)) - 6
        names = min(NAME_CELLS, box // 3)
        text = "\n".join(
            line for name, value in self._rows for line in _lines(name, value, names, box)
        )
        self.query_one(Static).update(Text(text, no_wrap=True))


def _lines(name: str, value: str, names: int, box: int) -> list[str]:
    """A name and its value; a long value continues in its own column."""
    parts = wrapped(value, max(8, box - names - 1))
    heads = [name, *[""] * (len(parts) - 1)]
    return [f"{fit(head, names)} {part}".rstrip() for head, part in zip(heads, parts, strict=True)]


class SortDialog(ModalScreen[str]):
    """Waits for the letter to sort by; any other key closes it."""

    DEFAULT_CSS = """
    SortDialog { align: center bottom; }
    SortDialog Static { width: 100%; height: auto; background: $primary; color: $text; padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        letters = "  ".join(f"{key} {name}" for key, name in SORTS.items())
        yield Static(Text(f"sort by: {letters}   (again: the other way round)"), markup=False)

    def on_key(self, event: events.Key) -> None:
        """Return the letter; "" for any other key."""
        event.stop()
        letter = event.character or ""
        self.dismiss(letter if letter in SORTS else "")
