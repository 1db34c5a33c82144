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
from ofu_exporter.values.reading import MAX_RATIO

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


PAIRS = """
PROF_PIPE_TENSOR_ACTIVE 0.5, PROF_TENSOR_UTIL_RATIO 0.5
DEV_SM_CLOCK 1500, DEV_SM_CLOCK_HERTZ 1.5e9
DEV_MAX_SM_CLOCK 1980, DEV_SM_MAX_CLOCK_HERTZ 1.98e9
PROF_GR_ENGINE_ACTIVE 0.9, PROF_GR_ENGINE_UTIL_RATIO 0.9
DEV_GPU_UTIL 95, DEV_GPU_UTIL_RATIO 0.95
DEV_POWER_USAGE 350, DEV_BOARD_POWER_WATTS 350
DEV_ENFORCED_POWER_LIMIT 700, DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS 700
DEV_TOTAL_ENERGY_CONSUMPTION 8000, DEV_GPU_ENERGY_JOULES_TOTAL 8
PROF_SM_ACTIVE 0.8, PROF_SM_UTIL_RATIO 0.8
PROF_SM_OCCUPANCY 0.3, PROF_SM_OCCUPANCY_RATIO 0.3
PROF_DRAM_ACTIVE 0.4, PROF_DRAM_UTIL_RATIO 0.4
PROF_PIPE_FP64_ACTIVE 0.01, PROF_FP64_UTIL_RATIO 0.01
PROF_PIPE_FP32_ACTIVE 0.02, PROF_FP32_UTIL_RATIO 0.02
PROF_PIPE_FP16_ACTIVE 0.03, PROF_FP16_UTIL_RATIO 0.03
PROF_PIPE_INT_ACTIVE 0.04, PROF_INT_UTIL_RATIO 0.04
PROF_PIPE_TENSOR_HMMA_ACTIVE 0.45, PROF_HMMA_UTIL_RATIO 0.45
PROF_PIPE_TENSOR_IMMA_ACTIVE 0.05, PROF_IMMA_UTIL_RATIO 0.05
PROF_PIPE_TENSOR_DFMA_ACTIVE 0.06, PROF_DFMA_UTIL_RATIO 0.06
PROF_PCIE_TX_BYTES 10, PROF_PCIE_TX_BYTES 10
PROF_PCIE_RX_BYTES 20, PROF_PCIE_RX_BYTES 20
PROF_NVLINK_TX_BYTES 30, PROF_NVLINK_TX_BYTES 30
PROF_NVLINK_RX_BYTES 40, PROF_NVLINK_RX_BYTES 40
"""
"""The names that dcgm-exporter 4 and 5 give each counter, without DCGM_FI_, and one state in their units."""


@pytest.mark.parametrize("generation", [0, 1])
def test_a_page_of_either_generation_says_the_same(generation: int) -> None:
    pairs = [line.split(", ")[generation].split() for line in PAIRS.split("\n")[1:-1]]
    (found,) = parse("".join(row(f"DCGM_FI_{n}", 0, v) for n, v in pairs), Places(1)).rows
    assert (found.tensor_active, found.clock_hz, found.total_joules) == (0.5, 1.5e9, 8.0)
    assert found.gpu.max_sm_clock_hz == pytest.approx(1.98e9)
    assert found.pipes == {"hmma": 0.45, "imma": 0.05, "dfma": 0.06}
    activity = found.activity(8.0)._asdict()
    shares = {"sm": 0.8, "occupancy": 0.3, "dram": 0.4, "engine": 0.9}
    pipes = {"fp64": 0.01, "fp32": 0.02, "fp16": 0.03, "integer": 0.04}
    links = {
        "pcie_sent": 10.0,
        "pcie_received": 20.0,
        "nvlink_sent": 30.0,
        "nvlink_received": 40.0,
    }
    expected = {**shares, **pipes, **links, "energy_joules": 8.0}
    assert activity == {
        **dict.fromkeys(activity),
        **{k: expected[k] for k in activity if k in expected},
    }
    evidence = found.evidence()
    assert evidence is not None
    assert evidence.graphics_active == 0.9
    assert (evidence.power_watts, evidence.power) == (350.0, 0.5)
    assert evidence.utilization_ratio == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("name", "blank"),
    [("DCGM_FI_DEV_SM_CLOCK", 0x7FFFFFF0), (TENSOR, 2**47), (POWER, 2**47)],
)
def test_from_its_sentinels_on_a_value_is_none(name: str, blank: int) -> None:
    """dcgm_structs.h: DCGM_INT32_BLANK, DCGM_FP64_BLANK."""
    values = [
        parse(row(name, 0, value), Places(1)).rows[0].counters
        for value in (blank - 1, blank, blank + 16)
    ]
    assert [None not in each.values() for each in values] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "most"), [(POWER, 10e3), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", MAX_RATIO)]
)
def test_evidence_beyond_what_can_be_is_none(name: str, most: float) -> None:
    def shown(value: float) -> bool:
        (found,) = parse(row(name, 0, value), Places(1)).rows
        evidence = found.evidence()
        return evidence is not None and any(each is not None for each in evidence)

    assert [shown(each) for each in (0, most, most * 1.001, -0.001)] == [True, True, False, False]


def test_a_line_and_a_label_have_their_longest() -> None:
    def rejected(length: int, of_label: int) -> list[str]:
        line = row(TENSOR, 0, 1, f',x="{"y" * of_label}"')
        return [*parse(f"{line[:-1]}{' ' * (length - len(line) + 1)}\n", Places(1)).rejected]

    assert rejected(8192, 256) == []
    assert rejected(8193, 256) == ["line_too_long"]
    assert rejected(8192, 257) == ["unreadable_line"]
