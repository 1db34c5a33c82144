"""Makes text from outside safe to show: on the page, in a log, on a terminal."""

from __future__ import annotations

from collections.abc import Iterable


def shown(text: str) -> str:
    r"""The text with an escape for each character that is not printable: `\n`, `\x1b`, `\u202e`, `\ud800`.

    A terminal obeys the first three. The last is half a surrogate pair. JSON can hold one, UTF-8 cannot, so an answer
    with one in it could not be sent.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def shown_lines(text: str) -> str:
    """The same for a text of lines, which stay lines."""
    return "\n".join(map(shown, text.split("\n")))


def show(value: object, names: Iterable[str]) -> None:
    """Replace these fields of a frozen value, which is just being made, by what can be shown of them."""
    for name in names:
        text = getattr(value, name)
        if not text.isprintable():
            object.__setattr__(value, name, shown(text))
