"""A test of every row judges all of them and names those that fail."""

from __future__ import annotations

import pytest

from tests.helpers.every import every


@every([1, 2, 3])
def test_a_row_is_an_argument(number: int) -> None:
    assert number in (1, 2, 3)


@every([("a", 1), ("b", 2)], lambda letter, _: letter)
def test_a_tuple_is_several(letter: str, number: int) -> None:
    assert "_ab"[number] == letter


def test_each_row_that_fails_is_named_and_none_else() -> None:
    judged = []

    @every([1, 2, 3, 4])
    def is_odd(number: int) -> None:
        judged.append(number)
        if number == 4:
            raise KeyError("four")
        assert number % 2, "even"

    with pytest.raises(AssertionError, match=r"2: AssertionError\('even.*\n4: KeyError\('four'\)$"):
        is_odd()
    assert judged == [1, 2, 3, 4]


def test_a_row_of_several_values_is_named_by_all_of_them() -> None:
    @every([("a", 1), ("b", 2)])
    def is_one(letter: str, number: int) -> None:
        assert number == 1

    with pytest.raises(AssertionError, match=r"^b, 2: AssertionError"):
        is_one()


def test_there_are_rows() -> None:
    with pytest.raises(AssertionError, match="no rows"):
        every([])
