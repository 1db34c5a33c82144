"""Makes inputs that mean harm: a valid document with a few values in it that nobody expects, or bytes that are cut."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

DEEP = "@deep@"
"""Stands for nesting that is too deep for whoever writes JSON."""
LEVELS = (20, 300, 3000, 100_000)

TEXTS = st.one_of(
    st.sampled_from(
        [
            *("", " ", "\ud800", "a\udfffb", "\x00", "\x1b[31m", "\n", '"', "\\", "{}", "\u202e"),
            *("nan", "1e999", "-1", "../../etc/passwd", "x" * 300, "x" * 20_000, "SIMULATED-1-0"),
        ]
    ),
    st.text(st.characters(), max_size=8),
    st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=8),
)
NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, True, False, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400]),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-9, 0.5, 1.0, 1e6, 1e12, 1e300, 1.7e308, -1e308]),
    st.sampled_from([float("nan"), float("inf"), -float("inf")]),
    st.integers(-10, 10),
    st.floats(),
)
WORST: SearchStrategy[Any] = st.sampled_from(
    ["\ud800", "", "\x1b[31m\n", None, -1, 10**400, 1e300, float("nan"), DEEP, [], {}, True, 0]
)
"""What has brought programs down most often; half of all changes are one of these."""
VALUES: SearchStrategy[Any] = st.one_of(
    WORST,
    WORST,
    WORST,
    st.none(),
    TEXTS,
    NUMBERS,
    st.just(DEEP),
    st.recursive(
        TEXTS | NUMBERS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=8,
    ),
)


LIKE: dict[type, SearchStrategy[Any]] = {
    str: st.just("\ud800") | TEXTS,
    int: NUMBERS,
    float: NUMBERS,
}
"""Other values of the same kind, which come further than those that are refused for their kind."""


@st.composite
def spoilt(draw: DrawFn, valid: SearchStrategy[Any]) -> Any:
    """A valid document of which some values are others, gone, or have company."""
    document = [copy.deepcopy(draw(valid))]
    for _ in range(draw(st.integers(0, 3))):
        places = list(_places(document))
        if places:
            _change(draw, *draw(st.sampled_from(places)))
    return document[0] if document else None


Place = tuple[Any, Any]
"""An object or a list, and one of its keys."""


def _places(item: Any) -> Iterator[Place]:
    keys = list(item) if isinstance(item, dict) else range(len(item))
    for key in keys:
        yield item, key
        if isinstance(item[key], (dict, list)):
            yield from _places(item[key])


def _change(draw: DrawFn, item: Any, key: Any) -> None:
    what = draw(st.sampled_from(["like", "like", "value", "gone", "company"]))
    if what == "like":
        item[key] = draw(LIKE.get(type(item[key]), VALUES))
    elif what == "value":
        item[key] = draw(VALUES)
    elif what == "gone":
        del item[key]
    elif isinstance(item, dict):
        item[draw(st.just("\ud800") | TEXTS)] = draw(VALUES)
    else:
        item.append(draw(VALUES))


@st.composite
def encoded(draw: DrawFn, documents: SearchStrategy[Any]) -> bytes:
    """JSON of the document as Python writes it: halves of surrogate pairs as escapes, NaN as NaN."""
    text = json.dumps(draw(documents))
    if f'"{DEEP}"' in text:
        levels = draw(st.sampled_from(LEVELS))
        left, right = draw(st.sampled_from([("[", "]"), ('{"a":', "}")]))
        text = text.replace(f'"{DEEP}"', left * levels + "1" + right * levels)
    return text.encode()


@st.composite
def cut(draw: DrawFn, whole: SearchStrategy[bytes]) -> bytes:
    """Mostly the bytes as they are; else with a piece gone, or with another in its place."""
    data = draw(whole)
    if draw(st.integers(0, 4)):
        return data
    begin = draw(st.integers(0, len(data)))
    end = draw(st.integers(begin, min(begin + 20, len(data))))
    return data[:begin] + draw(st.binary(max_size=8)) + data[end:]


def json_like(*valid: Any) -> SearchStrategy[bytes]:
    """Inputs that are nearly one of these documents."""
    return cut(encoded(spoilt(st.sampled_from(valid))))


@st.composite
def json_lines(draw: DrawFn, valid: list[Any]) -> bytes:
    """The same of a file with a document in each line."""
    lines = draw(spoilt(st.just(valid)))
    if not isinstance(lines, list):
        lines = [lines]
    return b"".join(draw(encoded(st.just(line))) + b"\n" for line in lines)
