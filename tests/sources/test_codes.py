"""What the codes of NVIDIA's libraries are taken for, golden: one line for each that there is, known or not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from ofu_exporter.sources.dcgm import library
from ofu_exporter.sources.dcgm.library import Entity, decoded, failure
from ofu_exporter.sources.nvml import nvml_errors


class DriverError(Exception):
    def __init__(self, value: int | None) -> None:
        super().__init__(f"code {value}")
        self.value = value


def test_a_code_has_the_reason_that_it_had(golden: Callable[[str, str], None]) -> None:
    of_dcgm = [(code, failure("dcgmCall", code, "why")) for code in range(0, -80, -1)]
    lines = [
        f"DCGM {code}: {type(each).__name__} {each.reason.value} {each}" for code, each in of_dcgm
    ]
    of_nvml = [DriverError(code) for code in (None, *range(31), 999, 1000)]
    lines += [f"NVML {each.value}: {nvml_errors.reason(each).value}" for each in of_nvml]
    golden("codes.txt", "\n".join(lines) + "\n")


def taken(kind: str, field: int, value: float | int | bytes, status: int = 0) -> str:
    values = SimpleNamespace(dbl=value, i64=value, str=value)
    raw = SimpleNamespace(type=ord(kind), field=field, status=status, micros=7, value=values)
    sample = decoded(Entity(1, 0), raw)
    return f"{kind} {field} {value!r} {status}: {sample.code} {sample.value!r}"


def test_a_blank_is_told_from_a_value_as_it_was(golden: Callable[[str, str], None]) -> None:
    device, profiling = library.FIRST_PROFILING_FIELD - 1, library.FIRST_PROFILING_FIELD
    lines = [
        taken("i", field, base + offset)
        for field in (device, profiling)
        for base in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0)
        for offset in (-1, 0, 1, 2, 3, 4, 5, 15)
        if base + offset < 2**63
    ]
    lines += [
        taken("d", profiling, 2.0**47 + offset)
        for offset in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 2.0**60)
    ]
    texts = (b"name", b"<<<NULL>>>", b"<<<x", b"x>>>", b"\xff")
    lines += [taken("s", device, text) for text in texts]
    lines += [taken("d", profiling, 0.5, status) for status in (0, -6, -17)]
    lines += [taken("d", profiling, float("nan"))]
    golden("blanks.txt", "\n".join(lines) + "\n")
