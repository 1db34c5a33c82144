"""The binding to libdcgm: its layouts to the byte, blanks that arrive with status 0, and codes."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import pytest

from ofu_exporter.sources.dcgm import library as libdcgm
from ofu_exporter.sources.dcgm.library import (
    BLANK_FP64,
    BLANK_INT32,
    BLANK_INT64,
    GPU,
    NO_DATA,
    NO_PERMISSION,
    NOT_SUPPORTED,
    DcgmError,
    Entity,
    FieldValue1,
    Library,
    decoded,
)
from ofu_exporter.values.reasons import Reason
from tests.doubles import dcgm as double

ENTITY = Entity(GPU, 0)
SM_CLOCK, TENSOR, CYCLES = 100, 1004, 1084


@pytest.mark.parametrize(
    ("structure", "version", "size", "word"),
    [
        (libdcgm.FieldValue1, 1, 4120, 0x01001018),
        (libdcgm.FieldValue2, 2, 4128, 0x02001020),
        (libdcgm.ConnectParameters, 2, 16, 0x02000010),
        (libdcgm.EmbeddedParameters, 2, 80, 0x02000050),
        (libdcgm.Hierarchy, 2, 73480, 0x02011F08),
        (libdcgm.EntityPair, 1, 8, 0x01000008),
        (libdcgm.HierarchyEntry, 1, 164, 0x010000A4),
    ],
)
def test_sizes_and_version_words_are_those_of_the_headers(
    structure: type[ctypes.Structure], version: int, size: int, word: int
) -> None:
    assert ctypes.sizeof(structure) == size
    assert libdcgm.version_word(structure, version) == word


@pytest.mark.parametrize(
    ("structure", "offsets"),
    [
        (FieldValue1, {"field": 4, "type": 6, "status": 8, "micros": 16, "value": 24}),
        (
            libdcgm.FieldValue2,
            {"group": 4, "number": 8, "field": 12, "type": 14, "status": 16, "micros": 24}
            | {"value": 32},
        ),
    ],
)
def test_values_lie_where_the_headers_put_them(
    structure: type[ctypes.Structure], offsets: dict[str, int]
) -> None:
    assert {name: getattr(structure, name).offset for name in offsets} == offsets


def raw(field: int, value: float | int | str, status: int = 0) -> FieldValue1:
    made = FieldValue1(version=0x01001018, field=field, status=status, micros=5)
    if isinstance(value, str):
        made.type, made.value.str = ord("s"), value.encode()
    elif isinstance(value, float):
        made.type, made.value.dbl = ord("d"), value
    else:
        made.type, made.value.i64 = ord("i"), value
    return made


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        (TENSOR, BLANK_FP64, NO_DATA),
        (TENSOR, BLANK_FP64 + 1, NO_DATA),
        (TENSOR, BLANK_FP64 + 2, NOT_SUPPORTED),
        (TENSOR, BLANK_FP64 + 3, NO_PERMISSION),
        (TENSOR, 1e300, NO_DATA),
        (TENSOR, math.inf, NO_DATA),
        (CYCLES, BLANK_INT64, NO_DATA),
        (CYCLES, BLANK_INT64 + 2, NOT_SUPPORTED),
        (CYCLES, BLANK_INT64 + 15, NO_DATA),
        (SM_CLOCK, BLANK_INT64, NO_DATA),
        (SM_CLOCK, BLANK_INT32, NO_DATA),
        (SM_CLOCK, BLANK_INT32 + 3, NO_PERMISSION),
        (50, "<<<NULL>>>", NO_DATA),
        (50, "<<<NOT_SUPPORTED>>>", NO_DATA),
    ],
)
def test_a_blank_has_status_0_and_is_none(field: int, value: float | int | str, code: int) -> None:
    sample = decoded(ENTITY, raw(field, value))
    assert (sample.value, sample.code) == (None, code)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (TENSOR, 0.0),
        (TENSOR, 1.0),
        (SM_CLOCK, 0),
        (SM_CLOCK, 1980),
        (CYCLES, 2**47),
        (CYCLES, 2**47 + 1),
        (CYCLES, BLANK_INT32),
        (CYCLES, 2**62),
        (50, "NVIDIA H100 80GB HBM3"),
    ],
)
def test_what_was_measured_is_no_blank(field: int, value: float | int | str) -> None:
    """Cycle counters pass 2^47, the sentinel of ratios, within a day."""
    sample = decoded(ENTITY, raw(field, value))
    assert (sample.value, sample.code, sample.micros) == (value, 0, 5)


def test_not_a_number_is_passed_on() -> None:
    value = decoded(ENTITY, raw(TENSOR, math.nan)).value
    assert isinstance(value, float)
    assert math.isnan(value)


def test_a_value_with_a_status_is_none() -> None:
    assert decoded(ENTITY, raw(TENSOR, 0.5, status=-18)).value is None


def test_every_code_has_a_reason_and_an_unknown_one_is_a_failure() -> None:
    assert DcgmError("call", -18).reason is Reason.LOST
    assert DcgmError("call", -999).reason is Reason.FAILED
    assert [type(libdcgm.failure("call", code)) is DcgmError for code in (-21, -10, -14)] == [
        *(True, True, False)
    ]


def test_a_node_without_the_library_has_the_reason_of_the_loader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libdcgm, "SONAMES", ("libnone.so.4", "libnone.so.3"))
    with pytest.raises(
        libdcgm.RefusedError, match=r"libnone\.so\.4: .*; libnone\.so\.3: "
    ) as caught:
        libdcgm.Library()
    assert caught.value.reason is Reason.NO_LIBRARY


def test_a_call_that_an_older_library_lacks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = double.Scenario(tmp_path / "scenario")
    monkeypatch.setenv(double.SCENARIO_VARIABLE, str(scenario.path))
    double.load().test_reset()
    library = Library()
    with pytest.raises(DcgmError) as caught:
        library.call("dcgmCallOfTheFuture")
    assert caught.value.code == libdcgm.FUNCTION_NOT_FOUND
    library.close()
