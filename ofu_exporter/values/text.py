"""Makes text from outside safe to show on the page, in a log, on a terminal, and names the first of many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LONGEST_NAME = 160
"""Letters of one of several names in a sentence. Kubernetes' names have at most 253, and hardly any that many."""


def shown(text: str) -> str:
    r"""The text with an escape in place of each unprintable character: `\n`, `\x1b`, `\u202e`, `\ud800`.

    A terminal would act on the first three. The last is half of a surrogate pair: JSON can hold it but UTF-8 cannot,
    so an answer that contains it could not be sent.
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


def first_names(names: Sequence[str], most: int) -> str:
    """The names; of more than `most` the first ones, and how many more there are. Long ones lack their middle."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(_shortened, names[:most])) + more


def _shortened(name: str) -> str:
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}...{name[-half:]}"


_ODD = re.compile(r"[^ -~\n]")


def shown_json(text: str) -> str:
    """JSON in lines that means the same, with an escape in place of each unprintable character of its strings."""
    if not _ODD.search(text):  # a tenth of the time, and no second copy
        return text
    return "\n".join(
        line if line.isprintable() else "".join(map(_json_letter, line))
        for line in text.split("\n")
    )


def _json_letter(letter: str) -> str:
    if letter.isprintable():
        return letter
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def show(value: object, names: Iterable[str]) -> None:
    """Replace these fields of a frozen value that is just being made by their printable form."""
    for name in names:
        text = getattr(value, name)
        if not text.isprintable():
            object.__setattr__(value, name, shown(text))
