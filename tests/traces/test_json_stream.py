"""A JSON object read piece by piece is the object that is read at once, wherever the pieces end."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.traces import json_stream
from ofu_exporter.traces.json_stream import members
from tests.helpers.every import every

NAMES = st.text(max_size=5).filter(lambda name: name != "events")
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(NAMES, PLAIN, max_size=3)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)


class Trickle(io.StringIO):
    """A file that gives a few characters at a time, as a pipe may."""

    def __init__(self, text: str, most: int) -> None:
        super().__init__(text)
        self._most = most

    def read(self, size: int | None = -1) -> str:
        return super().read(min(self._most, self._most if size is None else size))


@given(OBJECTS, st.lists(VALUES, max_size=4), st.integers(1, 30), st.sampled_from([None, 1]))
def test_members_are_what_json_reads(
    rest: dict[str, Any], events: list[Any], most: int, indent: int | None
) -> None:
    text = json.dumps({**rest, "events": events}, indent=indent)
    found = list(members(Trickle(text, most), "events"))
    assert [value for name, value in found if name == "events"] == events
    assert {name: value for name, value in found if name != "events"} == rest


@given(st.lists(VALUES, max_size=4), st.integers(1, 30))
def test_a_plain_array_is_read_as_the_member(events: list[Any], most: int) -> None:
    found = list(members(Trickle(json.dumps(events), most), "events"))
    assert found == [("events", event) for event in events]


@given(OBJECTS, st.lists(VALUES, max_size=4), st.data())
def test_what_is_cut_short_is_refused(
    rest: dict[str, Any], events: list[Any], data: st.DataObject
) -> None:
    text = json.dumps({**rest, "events": events})
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(ValueError, match=r"."):
        list(members(io.StringIO(cut), "events"))


CUT, NONE = "it is cut short", "it is not a JSON object or array"
MORE = "there is text after its end: it is more than one JSON object or array"
NO_OBJECTS = {
    "": CUT,
    "{": CUT,
    '{"a"': CUT,
    '{"a": [1': CUT,
    '{"events": [1, ': CUT,
    "1": NONE,
    "nonsense": NONE,
    "{}{}": MORE,
    '{"a": 1}\n{"b": 2}': MORE,
    "[1] 2": MORE,
    '{"a": 1 "b": 2}': "'}' or ',' is missing",
    '{"a"}': "':' is missing",
    '{"a": }': "Expecting value",
    '{"events": [1 2]}': "']' or ',' is missing",
}


@every(NO_OBJECTS)
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(NO_OBJECTS[text])):
        list(members(io.StringIO(text), "events"))


def test_the_streamed_member_may_be_no_array() -> None:
    assert list(members(io.StringIO('{"events": null}'), "events")) == [("events", None)]


def test_one_value_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "LONGEST_VALUE", 1000)
    with pytest.raises(ValueError, match="longer than 1000 characters"):
        list(members(Trickle('{"events": ["' + "x" * 5000, 100), "events"))
