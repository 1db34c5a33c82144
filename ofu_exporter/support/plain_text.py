"""Makes text of others harmless to a terminal and to a log: one line, without anything that is not printed."""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""The text with \x1b, \n, \u202e and the like in the place of what a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def escaped_lines(text: str) -> str:
    """The same for a text of lines, which stay lines."""
    return "\n".join(map(escaped, text.split("\n")))


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
