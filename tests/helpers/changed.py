"""A document with each part of it changed in turn, and what a reader makes of it or says of it, for a golden."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any


def instead(value: object) -> Iterator[object]:
    """Values of other kinds and sizes: too small, odd, the other way round."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (0, 9)
    elif isinstance(value, float):
        yield 0
    elif isinstance(value, str):
        yield "other"
    elif isinstance(value, list):
        yield from ([], value[:-1], ["other"] * len(value))
    elif value is None:
        yield from (3, True)


def wronged(value: object) -> Iterator[object]:
    """The same for documents of strangers: of any kind, beyond any limit, and with what no label may have."""
    yield from (None, [], {}, "x", "", -1, 0, 1e300, float("nan"), True)
    if isinstance(value, str):
        yield from (f"{value} ", "x" * 300, "a\nb", "7", "2026-01-31T12:00:00Z")
    elif isinstance(value, (int, float)):
        yield from (value + 1, -value, 10 * value)
    elif isinstance(value, list):
        yield from (value[:1], value + value, 300 * value, [None], ["x", "x"])


def changes(
    document: Mapping[str, Any],
    others: Callable[[object], Iterator[object]] = instead,
    never: Collection[str] = (),
    path: str = "",
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field left out, and with other values; of the parts of a document, and of the first in a list, too."""
    for name, value in document.items():
        if name in never:
            continue
        yield f"{path}{name} gone", {key: each for key, each in document.items() if key != name}
        for said, inner in _inside(value, others, never, f"{path}{name}"):
            yield said, {**document, name: inner}
        for other in others(value):
            yield f"{path}{name} {repr(other)[:60]}", {**document, name: other}


def _inside(
    value: object,
    others: Callable[[object], Iterator[object]],
    never: Collection[str],
    path: str,
) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from changes(value, others, never, f"{path}.")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            if isinstance(each, dict):
                for said, inner in changes(each, others, never, f"{path}[{place}]."):
                    yield said, [*value[:place], inner, *value[place + 1 :]]


def outcomes(
    document: Mapping[str, Any],
    judged: Callable[[dict[str, Any]], str | Mapping[str, Any]],
    others: Callable[[object], Iterator[object]] = instead,
    never: Collection[str] = (),
) -> str:
    """What is said of each change, a line each, or which fields are others; what makes no difference is left out."""
    usual = judged(dict(document))
    lines = [f"{usual}"]
    for said, changed in changes(document, others, never):
        outcome = judged(changed)
        if outcome != usual:
            if isinstance(outcome, Mapping) and isinstance(usual, Mapping):
                keys = [key for key in {**usual, **outcome} if outcome.get(key) != usual.get(key)]
                outcome = {key: outcome.get(key, "left out") for key in keys}
            lines.append(f"{said}: {outcome}"[:400])
    return "\n".join(lines).encode("ascii", "backslashreplace").decode() + "\n"


def near(value: object) -> Iterator[object]:
    """Other values of a result: nothing, little, much, not known."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from (0, 1, 3 * value, None)
    elif isinstance(value, str):
        yield "other"
    elif isinstance(value, list):
        yield []
    elif value is None:
        yield from (1, "x", True)


def lines_that_differ(
    document: Mapping[str, Any], told: Callable[[dict[str, Any]], list[str] | None]
) -> str:
    """The lines of a text that are others with each value changed; None is told of what cannot be."""
    before, lines = told(dict(document)), []
    assert before
    for said, changed in changes(document, near):
        found = told(changed)
        if found not in (before, None) and not said.endswith(" gone"):
            compared = difflib.unified_diff(before, found or [], n=0, lineterm="")
            added = [each for each in compared if each[:1] == "+" and each[:3] != "+++"]
            lines += [said, *(f"  {each}" for each in added)]
    return "\n".join(lines) + "\n"
