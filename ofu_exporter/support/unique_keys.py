"""Parses JSON, and refuses an object with two equal keys, of which Python alone takes the last."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

MOST_CHARS = 100
"""Most characters of a key in an error."""


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


_DECODER = json.JSONDecoder(object_pairs_hook=_fields)
"""One for all: to make it takes longer than to decode a report."""


def parsed(text: str | bytes) -> Any:
    """The value in a text. Raises RepeatedKey, and what json.loads raises."""
    if isinstance(text, str):
        return json.loads(text, object_pairs_hook=_fields)
    return _DECODER.decode(text.decode(json.detect_encoding(text), "surrogatepass"))
