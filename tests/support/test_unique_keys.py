"""Two equal keys in one object are refused; the same key in two objects is not."""

from __future__ import annotations

import json

import pytest

from ofu_exporter.support.unique_keys import MOST_DIGITS, RepeatedKey, parsed


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "a": 1}', '[{"x": {"a": 1, "a": 2}}]'])
def test_a_key_that_is_there_twice_is_named(text: str) -> None:
    with pytest.raises(RepeatedKey) as caught:
        parsed(text)
    assert caught.value.msg == "the key 'a' is there twice"


def test_everything_else_is_as_json_has_it() -> None:
    text = '{"a": {"a": [1, 2.5, null]}, "b": [{"a": 1}, {"a": 2}], "": {}}'
    assert parsed(text) == parsed(text.encode()) == json.loads(text)
    with pytest.raises(json.JSONDecodeError, match="Expecting"):
        parsed('{"a": ')


def test_an_integer_has_no_more_digits_than_are_quickly_read() -> None:
    """Python before 3.10.7 would read any number of them."""
    digits = "9" * (MOST_DIGITS + 1)
    for text in (digits, digits.encode(), f'{{"a": [{digits}]}}'):
        with pytest.raises(ValueError, match="digits"):
            parsed(text)
    assert parsed(digits[1:]) == parsed(digits[1:].encode()) == 10**MOST_DIGITS - 1


def test_many_keys_take_no_longer_than_they_are_many() -> None:
    """A quarter of a MiB, whose last key is its first."""
    keys = ", ".join(f'"k{number}": 0' for number in range(20_000))
    with pytest.raises(RepeatedKey, match="'k0'"):
        parsed(f'{{{keys}, "k0": 1}}')
