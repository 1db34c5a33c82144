"""Places for the GPUs of a page: those known longest keep theirs, whatever the page names beside them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.sources.dcgm_exporter.places import Places

PAGES = st.lists(st.lists(st.integers(0, 30), unique=True), max_size=20)


@given(st.integers(1, 8), PAGES)
def test_as_many_have_a_place_as_there_are_and_all_where_that_is_enough(
    most: int, pages: list[list[int]]
) -> None:
    places = Places(most)
    for page in pages:
        taken = places.taken(page)
        assert taken <= set(page)
        assert len(taken) == min(most, len(page))


@given(st.integers(1, 8), PAGES)
def test_whoever_was_on_the_first_page_with_a_place_always_has_one(
    most: int, pages: list[list[int]]
) -> None:
    places = Places(most)
    first = places.taken([100, 101, 102])
    for page in pages:
        assert first <= places.taken([*page, 102, 101, 100])


def test_of_the_unknown_the_first_of_the_page_have_the_places() -> None:
    assert Places(2).taken(["b", "a", "c"]) == {"b", "a"}


def test_a_place_that_is_free_goes_to_another() -> None:
    places = Places(2)
    places.taken(["a", "b"])
    assert places.taken(["x", "y", "b"]) == {"b", "x"}
    assert places.taken(["x", "y", "a", "b"]) == {"a", "b"}
