"""A PyTorch trace: each kernel on tensor pipes has the product of its operator, or a reason why not."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.traces import formats
from ofu_exporter.traces.formats import KernelLaunches, kineto
from ofu_exporter.values.trace import TraceLimits
from tests.traces.formats import tracing
from tests.traces.formats.tracing import (
    ADD,
    FLASH,
    H100,
    NVJET,
    XMMA,
    kernel,
    launch,
    operator,
    rounded,
    write,
)


def only(path: Path) -> KernelLaunches:
    (launches,) = rounded(formats.read(path))
    return launches


@pytest.mark.parametrize(
    ("identity", "gemm"),
    [
        (tracing.ADDMM, Gemm(m=96, n=32, k=64)),
        (tracing.MM_BACKWARD, Gemm(m=64, n=96, k=32)),
        (tracing.BMM, Gemm(m=24, n=16, k=32, batch=3)),
        (tracing.BADDBMM, Gemm(m=24, n=16, k=32, batch=3)),
        (tracing.MM, Gemm(m=40, n=17, k=64)),
        (tracing.INT_MM, Gemm(m=16, n=32, k=64)),
    ],
)
def test_what_torch_records_of_an_operator_is_the_product_of_its_kernel(
    identity: int, gemm: Gemm, tmp_path: Path
) -> None:
    path = write(tmp_path / "trace.json", kernel(NVJET, identity))
    assert only(path) == KernelLaunches(NVJET, 1, 1e-4, gemm)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "anything"])
def test_a_trace_is_recognised_by_its_content(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, kernel(NVJET, tracing.MM), kernel(ADD, 3, microseconds=40))
    profile = formats.read(path)
    assert profile.format == "kineto"
    assert profile.gpus == {H100}
    assert profile.other_seconds == pytest.approx(4e-5)
    assert [each.kernel for each in profile.launches] == [NVJET]


def test_events_alone_are_a_trace_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([operator("aten::mm", 5, [2, 3], [3, 4]), kernel(NVJET, 5)]))
    assert only(path).gemm == Gemm(4, 2, 3)


def test_kernels_may_stand_before_their_operators(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([kernel(NVJET, 5), operator("aten::mm", 5, [2, 3], [3, 4])]))
    assert only(path).gemm == Gemm(4, 2, 3)


def test_a_kernel_without_operator_is_found_by_its_launch(tmp_path: Path) -> None:
    path = write(
        tmp_path / "trace.json", launch(77, tracing.MM), launch(78, 1), kernel(NVJET, None, 77)
    )
    assert only(path).gemm == Gemm(40, 17, 64)


def test_the_operator_of_a_kernel_goes_before_that_of_its_launch(tmp_path: Path) -> None:
    """Also where the launch was not recorded."""
    path = tmp_path / "trace.json"
    for told in ((launch(77, 1),), ()):
        write(path, *told, kernel(NVJET, tracing.MM, 77))
        assert only(path).gemm == Gemm(40, 17, 64)


def test_ids_as_older_profilers_write_them(tmp_path: Path) -> None:
    old = kernel(NVJET, **{"external id": tracing.MM})
    assert only(write(tmp_path / "trace.json", {**old, "cat": "Kernel"})).gemm == Gemm(40, 17, 64)


def test_alike_launches_are_added_up(tmp_path: Path) -> None:
    many = [operator("aten::mm", 200 + i, [17, 64], [64, 40]) for i in range(5)]
    launched = [kernel(NVJET, 200 + i, microseconds=10) for i in range(5)]
    assert only(write(tmp_path / "trace.json", *many, *launched)) == KernelLaunches(
        NVJET, 5, 5e-5, Gemm(40, 17, 64)
    )


def test_newer_torch_has_another_scaled_product(tmp_path: Path) -> None:
    odd = operator("aten::_scaled_mm_v2", 901, [8, 64], [64, 16], [], [1])
    assert only(write(tmp_path / "trace.json", odd, kernel(NVJET, 901))).gemm == Gemm(16, 8, 64)


def test_two_to_a_byte_fp4_is_twice_as_deep(tmp_path: Path) -> None:
    kinds = {"Input type": ["c10::Float4_e2m1fn_x2", "c10::Float4_e2m1fn_x2"]}
    scaled = operator("aten::_scaled_mm", 5, [128, 64], [64, 256], **kinds)
    assert only(write(tmp_path / "trace.json", scaled, kernel(NVJET, 5))).gemm == Gemm(
        256, 128, 128
    )


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([kernel(FLASH, tracing.LINEAR)], kineto.NO_PRODUCT),
        ([kernel(NVJET)], kineto.NO_PRODUCT),
        ([kernel(NVJET, None, 55)], kineto.NO_PRODUCT),
        ([kernel(NVJET, 0)], kineto.NO_PRODUCT),
        ([kernel(NVJET, tracing.MM), kernel(NVJET, tracing.MM)], kineto.SEVERAL),
        ([operator("aten::mm", tracing.MM, [1, 2], [2, 3]), kernel(NVJET, 76)], kineto.AMBIGUOUS),
        ([operator("aten::mm", 5, [1, 2], [3, 4]), kernel(NVJET, 5)], kineto.NO_PRODUCT),
        ([operator("aten::bmm", 5, [1, 2, 3], [2, 3, 4]), kernel(NVJET, 5)], kineto.NO_PRODUCT),
        ([operator("aten::mm", 5, [], []), kernel(NVJET, 5)], kineto.NO_PRODUCT),
        ([operator("aten::mm", 5), kernel(NVJET, 5)], kineto.NO_PRODUCT),
    ],
)
def test_what_cannot_be_told_is_said(
    events: list[dict[str, Any]], why: str, tmp_path: Path
) -> None:
    launches = only(write(tmp_path / "trace.json", *events))
    assert (launches.gemm, launches.why, launches.number) == (
        None,
        why,
        len(events) - (events[0]["cat"] == "cpu_op"),
    )


def test_a_recording_without_shapes_says_so(tmp_path: Path) -> None:
    trace = tracing.recorded()
    for event in trace["traceEvents"]:
        event["args"].pop("Input Dims", None)
    path = write(tmp_path / "trace.json", kernel(XMMA, tracing.MM), trace=trace)
    assert only(path).why == kineto.NOT_RECORDED


def test_a_reduction_beside_the_product_is_no_second_product(tmp_path: Path) -> None:
    split = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>"
    path = write(tmp_path / "trace.json", kernel(NVJET, tracing.MM), kernel(split, tracing.MM))
    assert only(path).gemm == Gemm(40, 17, 64)


def test_odd_events_are_passed_over(tmp_path: Path) -> None:
    odd: list[Any] = [None, 3, "x", {}, {"cat": "kernel"}, {"cat": "kernel", "args": 5}]
    odd += [{"cat": "cpu_op", "name": "aten::mm", "args": {"External id": "5"}}]
    path = write(tmp_path / "trace.json", *odd, kernel(NVJET, tracing.MM))
    assert only(path).gemm == Gemm(40, 17, 64)


@pytest.mark.parametrize("odd", ["soon", [1], {}, None, -1.0, float("nan"), float("inf"), 10**400])
def test_what_is_no_duration_adds_no_time(odd: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "trace.json", kernel(NVJET, tracing.MM, microseconds=odd))
    assert only(path).seconds == 0


@pytest.mark.parametrize("huge", [10**13, 10**200])
def test_sides_that_no_memory_holds_are_none_of_a_product(huge: int, tmp_path: Path) -> None:
    odd = operator("aten::mm", 901, [huge, 64], [64, 64])
    path = write(tmp_path / "trace.json", odd, kernel(NVJET, 901))
    assert only(path).why == kineto.NO_PRODUCT


def test_odd_fields_are_passed_over(tmp_path: Path) -> None:
    odd = operator("aten::mm", 901, [8, 64], [64, 16])
    odd["args"]["Input type"] = 5
    path = tmp_path / "trace.json"
    devices = [None, 1, "name", {"name": H100}]
    path.write_text(
        json.dumps({"deviceProperties": devices, "traceEvents": [odd, kernel(NVJET, 901)]})
    )
    profile = formats.read(path)
    assert profile.gpus == {H100}
    assert [each.gemm for each in profile.launches] == [Gemm(16, 8, 64)]


DAMAGED = bytearray(gzip.compress(json.dumps({"traceEvents": [*range(1000)]}).encode()))
DAMAGED[20:60] = b"\xff" * 40


@pytest.mark.parametrize(
    "content",
    [
        *(b'{"traceEvents": [{"cat": "kernel"', b"{", b"\x1f\x8bnot gzip", b'{"a" 1}'),
        *(bytes(DAMAGED), b"[" * 100_000, b'{"traceEvents": [{"a": ' + b"[" * 100_000),
        *(b'{"traceEvents": []}\n{"traceEvents": []}', gzip.compress(b"ID,Kernel Name\n")),
    ],
    ids=range(9),
)
def test_a_damaged_trace_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))}: "):
        formats.read(path)


def test_a_trace_that_torch_records_now(tmp_path: Path) -> None:
    """Needs torch: `pip install --group test-torch`."""
    torch = pytest.importorskip("torch", reason="pip install --group test-torch")
    path = tmp_path / "trace.json"
    tracing.record(path, torch)
    fresh = json.loads(path.read_text())
    operators = [
        event
        for event in fresh["traceEvents"]
        if event.get("cat") == "cpu_op" and event["name"] in kineto.FIRST_OPERAND
    ]
    launched = [kernel(NVJET, event["args"]["External id"]) for event in operators]
    found = formats.read(write(path, *launched, trace=fresh)).launches
    assert {each.gemm for each in found} == {
        Gemm(96, 32, 64),
        Gemm(64, 96, 32),
        Gemm(24, 16, 32, 3),
        Gemm(40, 17, 64),
        Gemm(16, 32, 64),
    }


@pytest.mark.parametrize(
    "event",
    [
        '{"cat": "kernel", "name": "ampere_bf16_gemm", "args": {"External id": 7}}',
        '{"cat": "cpu_op", "name": "aten::mm", "dur": -1, "args": {"External id": 7}}',
    ],
)
def test_events_without_times_count_as_events_too(event: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    with gzip.open(path, "wt") as file:
        file.write('{"traceEvents": [' + ",\n".join([event] * 5000) + "]}")
    with pytest.raises(ConfigError, match="more than 4,096 events"):
        formats.read(path, TraceLimits(events=4096))


def test_a_rank_that_cannot_be_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [], "distributedInfo": {"rank": 1%s}}' % ("0" * 4000))
    (timeline,) = formats.read(path).timelines
    assert timeline.rank is None
