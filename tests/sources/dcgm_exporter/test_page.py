"""Sorting a page by GPU: the same whatever the order of lines, and of bounded size whatever the page names."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.sources.dcgm_exporter.page import (
    FIELDS,
    MOST_LABELS_CHARS,
    MOST_NAMED,
    Places,
    parse,
)

TENSOR, POWER = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_POWER_USAGE"
NAMES = (TENSOR, "DCGM_FI_DEV_SM_CLOCK", POWER, "dcgm_sm_clock", "DCGM_FI_DEV_XID_ERRORS")


def row(name: str, gpu: int, value: object = 1, labels: str = "") -> str:
    return f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}"{labels}}} {value}\n'


ROWS = st.builds(
    row,
    st.sampled_from(NAMES),
    st.integers(0, 4),
    st.integers(0, 9),
    st.sampled_from(["", ',x="}"', ',x="{"', f',x="{"y" * MOST_LABELS_CHARS}"', ',GPU_I_ID="3"']),
)
NAMED = st.lists(st.lists(st.integers(0, 30), unique=True), max_size=20)
"""The GPUs of one page after the other."""
OTHERS = st.sampled_from(
    [
        "# HELP a b\n",
        "\n",
        "DCGM_FI_DEV_NVSWITCH 1\n",
        'DCGM_A{x="y"} 1\n',
        "DCGM_}{ 1\n",
        "DCGM_\n",
    ]
)


UNITS = {
    "DEV_SM_CLOCK": 1e6,
    "DEV_MAX_SM_CLOCK": 1e6,
    "DEV_GPU_UTIL": 0.01,
    "DEV_TOTAL_ENERGY_CONSUMPTION": 1e-3,
}
"""MHz, percent and mJ, by dcgm_fields.h. All others are ratios from 0 to 1, W, Hz or bytes."""


def test_every_counter_comes_in_the_unit_that_its_name_says() -> None:
    found = {name.removeprefix("DCGM_FI_"): unit for name, (_, unit) in FIELDS.items()}
    assert found == dict.fromkeys(found, 1.0) | UNITS


@given(st.lists(ROWS, max_size=20), st.lists(OTHERS, max_size=5))
def test_lines_between_those_of_a_gpu_change_nothing(rows: list[str], others: list[str]) -> None:
    """Each GPU alone on its page is as among the others."""
    whole = parse("".join([*others, *rows, *others]), Places(128))
    for gpu in range(5):
        own = "".join(each for each in rows if f'UUID="GPU-{gpu}"' in each)
        alone = parse(own, Places(128))
        assert alone.rows == [each for each in whole.rows if each.gpu.uuid == f"GPU-{gpu}"]


@pytest.mark.parametrize("labels", ["", f',x="{"y" * MOST_LABELS_CHARS}"'])
def test_any_line_of_a_gpu_shows_that_it_lives(labels: str) -> None:
    def liveness(*values: int) -> int:
        rows = [row(name, 0, value, labels) for name, value in zip(NAMES, values, strict=True)]
        (seen,) = parse("".join([row(TENSOR, 0), *rows]), Places(128)).rows  # one line is readable
        return seen.liveness

    before = [1] * len(NAMES)
    for number in range(len(NAMES)):
        after = [2 if number == other else 1 for other in range(len(NAMES))]
        assert liveness(*after) != liveness(*before)


def test_a_gpu_that_is_known_is_found_behind_any_number_of_others() -> None:
    places = Places(2)
    known = row(TENSOR, 7, 0.5)
    parse(known, places)
    page = parse("".join(row(TENSOR, gpu) for gpu in range(10, 2 * MOST_NAMED)) + known, places)
    assert [each.gpu.uuid for each in page.rows] == ["GPU-10", "GPU-7"]
    assert page.rejected["too_many_gpus"] == MOST_NAMED + 1 - 2


@pytest.mark.slow
def test_a_page_of_gpus_without_end_takes_less_memory_than_itself() -> None:
    text = "".join(row(TENSOR, gpu) for gpu in range(100_000))
    tracemalloc.start()
    try:
        parse(text, Places(128))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < len(text)


@given(st.integers(1, 8), NAMED)
def test_as_many_have_a_place_as_there_are_and_all_where_that_is_enough(
    most: int, pages: list[list[int]]
) -> None:
    places = Places(most)
    for page in pages:
        taken = places.take(page)
        assert taken <= set(page)
        assert len(taken) == min(most, len(page))


@given(st.integers(1, 8), NAMED)
def test_whoever_was_on_the_first_page_with_a_place_always_has_one(
    most: int, pages: list[list[int]]
) -> None:
    places = Places(most)
    first = places.take([100, 101, 102])
    for page in pages:
        assert first <= places.take([*page, 102, 101, 100])


def test_of_the_unknown_the_first_of_the_page_have_the_places() -> None:
    assert Places(2).take(["b", "a", "c"]) == {"b", "a"}


def test_a_place_that_is_free_goes_to_another() -> None:
    places = Places(2)
    places.take(["a", "b"])
    assert places.take(["x", "y", "b"]) == {"b", "x"}
    assert places.take(["x", "y", "a", "b"]) == {"a", "b"}
