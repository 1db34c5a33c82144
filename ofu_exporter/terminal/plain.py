"""Prints a scene as lines of text, with or without colours: what `top --once` shows."""

from __future__ import annotations

from ofu_exporter.terminal import pictures
from ofu_exporter.terminal.cells import STYLES, Line
from ofu_exporter.terminal.scene import Scene
from ofu_exporter.terminal.table import lay_out
from ofu_exporter.terminal.views import Choice, headline, sections


def page(scene: Scene, choice: Choice, width: int, is_coloured: bool = False) -> str:
    """The scene as lines of at most this width."""
    lines = [
        headline(scene, width),
        *(laid.draw() for laid in lay_out(sections(scene, choice), width)),
    ]
    return "\n".join(_text(line, is_coloured) for line in lines)


def for_encoding(text: str, encoding: str) -> str:
    """The text in characters of this encoding: ASCII replaces those of the pictures if they are missing."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        text = text.translate(pictures.PLAIN)
        return text.encode("ascii", "replace").decode("ascii")
    return text


def _text(line: Line, is_coloured: bool) -> str:
    return "".join(_coloured(*each) if is_coloured else each.text for each in line).rstrip(" ")


def _coloured(text: str, style: str) -> str:
    look = STYLES.get(style)
    return f"\x1b[{look.codes}m{text}\x1b[0m" if look and text.strip() else text
