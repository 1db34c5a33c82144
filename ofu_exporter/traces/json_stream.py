"""Reads a JSON object that is larger than memory: one array of it element by element, and all the rest at once.

By hand over the standard decoder, in 17 MiB where `json.load` takes 620 for a trace of 131 MB. ijson is as small, but
slower, refuses NaN and bytes that are no UTF-8, and 100 kB of brackets make it take all memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

CHUNK = 1 << 20
BATCH = 1 << 15
"""Characters that are decoded together: as many as leave their values in the cache of a core."""
SINGLES = 100
"""Values that are decoded one by one where several could not be."""
BORDERS = ("\n  },\n  {", '}, {"ph"', '},{"ph"', "},\n{")
"""What stands between two events of a trace, and seldom elsewhere."""
LONGEST_VALUE = 8 << 20
"""Most characters of one value. Without a limit, a file that is not JSON would be read whole before it is refused."""

MOST_CHARS = 1 << 40

_BLANK = re.compile(r"[ \t\r\n]*")
_AFTER_VALUE = frozenset(" \t\r\n,:]}")
_DECODER = json.JSONDecoder()


def members(file: TextIO, streamed: str, most: int = MOST_CHARS) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each member; the member `streamed`, an array, is given element by element.

    A file that is just an array is read as that member. Raises ValueError for text that is cut short, not JSON, or
    longer than `most` characters.
    """
    source = _Source(file, most)
    if source.peek() not in ("", "[", "{"):
        raise ValueError("it is not a JSON object or array")
    if source.peek() == "[":
        for element in _elements(source):
            yield streamed, element
    else:
        yield from _members(source, streamed)
    if source.peek():
        raise ValueError("there is text after its end: it is more than one JSON object or array")


def _members(source: _Source, streamed: str) -> Iterator[tuple[str, Any]]:
    for _ in _items(source, "{", "}"):
        name = source.value()
        source.expect(":")
        if name == streamed and source.peek() == "[":
            for element in _elements(source):
                yield streamed, element
        else:
            yield name, source.value()


def _elements(source: _Source) -> Iterator[Any]:
    for _ in _items(source, "[", "]"):
        yield from source.batch()
        yield source.value()


def _items(source: _Source, opening: str, closing: str) -> Iterator[None]:
    """Yield at the start of each item between two brackets; the caller then reads the item."""
    source.expect(opening)
    while source.peek() != closing:
        yield
        if source.peek() == ",":
            source.expect(",")
        elif source.peek() != closing:
            raise ValueError(
                f"{closing!r} or ',' is missing" if source.peek() else "it is cut short"
            )
    source.expect(closing)


class _Source:
    """The text of a file, from the place up to which it was read."""

    def __init__(self, file: TextIO, most: int) -> None:
        self._file = file
        self._left = self._most = most
        self._text = ""
        self._at = 0
        self._singles = 0

    def peek(self) -> str:
        """The next character that is not blank; "" at the end."""
        while True:
            blank = _BLANK.match(self._text, self._at)
            self._at = blank.end() if blank else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def expect(self, character: str) -> None:
        character_here = self.peek()
        if character_here != character:
            raise ValueError(f"{character!r} is missing" if character_here else "it is cut short")
        self._at += 1

    def value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise ValueError("its values are nested too deeply") from error
            except ValueError as error:
                if not self._more():
                    raise ValueError(f"it is cut short, or not JSON: {error}") from error
                continue
            if self._text[end : end + 1] not in _AFTER_VALUE and self._more():
                continue  # a number may continue: if only "1." of 1.5 is read yet, it would be taken for 1
            self._at = end
            return value

    def batch(self) -> list[Any]:
        """Values that stand here with a comma behind each, decoded together, which takes half the time; [] where it
        can't be told where one of them ends."""
        self._singles -= 1
        for border in BORDERS if self._singles < 0 else ():
            end = self._text.rfind(border, self._at, self._at + BATCH)
            if end < 0:
                continue
            end += border.index(",")
            try:
                values = _DECODER.decode(f"[{self._text[self._at : end]}]")
            except (ValueError, RecursionError):
                break
            self._at = end + 1
            return list(values)
        if self._singles < 0:  # looking costs as much as many values
            self._singles = SINGLES
        return []

    def _more(self) -> bool:
        """Double the text that is held, so that a long value is decoded only a few times. Returns whether there was
        more."""
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > LONGEST_VALUE:
            raise ValueError(f"one value is longer than {LONGEST_VALUE} characters")
        more = self._file.read(max(CHUNK, len(self._text)))
        self._left -= len(more)
        if self._left < 0:
            raise ValueError(f"it is longer than {self._most:,} characters")
        self._text += more
        return bool(more)
