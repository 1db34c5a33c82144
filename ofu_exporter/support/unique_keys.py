"""Parses JSON, and refuses an object with two equal keys, of which Python alone takes the last."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

MOST_CHARS = 100
"""Most characters of a key in an error."""
MOST_DIGITS = 4300
"""Of an integer, as Python has it since 3.10.7: 200,000 would hold up whoever else is served for half a second."""


class RepeatedKey(json.JSONDecodeError):
    """An object with two equal keys."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key[:MOST_CHARS]!r} is there twice", "", 0)


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise RepeatedKey(times.most_common(1)[0][0])
    return fields


def _short(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


_INTEGER = int if hasattr(sys, "get_int_max_str_digits") else _short
_DECODER = json.JSONDecoder(object_pairs_hook=_fields, parse_int=_INTEGER)
"""One for all: to make it takes longer than to decode a report."""


def parsed(text: str | bytes) -> Any:
    """The value in a text. Raises RepeatedKey, and what json.loads raises."""
    if isinstance(text, str):
        return json.loads(text, object_pairs_hook=_fields, parse_int=_INTEGER)
    return _DECODER.decode(text.decode(json.detect_encoding(text), "surrogatepass"))
