"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.support.durations import duration, lasting, seconds
from tests.helpers.every import every


@every(
    [
        (5, 5.0),
        (0.5, 0.5),
        ("5", 5.0),
        ("5s", 5.0),
        (" 5 s ", 5.0),
        (".5s", 0.5),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("0", 0.0),
    ]
)
def test_a_duration_is_a_number_of_seconds_or_has_a_unit(text: object, value: float) -> None:
    assert seconds(text) == value


@every(["", "s", "-5s", "5 seconds", "1d", "5s5", "nan", "inf", "1e3", "\u0665s", True, None, []])
def test_anything_else_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration such as"):
        seconds(text)


@every([10**30, "9" * 400, "87601h", "0.9ms", f"0.{'0' * 300}1"])
def test_what_is_below_a_millisecond_or_above_ten_years_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not between 1ms and 10 years"):
        seconds(text)


@given(st.integers(0, 10**7).map(lambda tenths: tenths / 10))
def test_what_is_shown_of_a_duration_is_read_as_it_was(value: float) -> None:
    assert seconds(duration(value)) == value


def test_whole_hours_are_shown_as_hours() -> None:
    assert [duration(value) for value in (0.5, 90.0, 3600.0, 5400.0, 7200.0)] == [
        "0.5s",
        "90s",
        "1h",
        "5400s",
        "2h",
    ]


@every(
    [(-1, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h"), (200000, "2.3 d")]
)
def test_how_long_something_lasted_is_said_roughly(value: float, words: str) -> None:
    assert lasting(value) == words
