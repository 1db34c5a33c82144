"""`profile`: overhead, precisions and what was left out, as a table and as JSON, from each kind of file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ofu_exporter.traces.formats import NO_SHAPE
from tests.helpers.in_process import as_json, call, shown
from tests.traces.formats import tracing
from tests.traces.formats.test_ncu import BF16, long
from tests.traces.formats.test_nsys_csv import SUM
from tests.traces.formats.tracing import ADD, FLASH, FP8, H100, NVJET, kernel, operator, write


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two products in BF16 and FP8 that tiles do not fit, and one kernel that nothing is known of."""
    return write(
        tmp_path / "trace.json.gz",
        operator("aten::mm", 201, [3000, 4096], [4096, 2176]),
        operator("aten::_scaled_mm", 202, [1000, 2048], [2048, 2048]),
        kernel(NVJET, 201, microseconds=600),
        kernel(FP8, 202, microseconds=200),
        kernel(FLASH, tracing.LINEAR, microseconds=200),
    )


def test_a_trace_says_all(trace: Path) -> None:
    out = as_json("profile", trace)
    bf16, fp8 = 2 * 2304 * 3072 * 4096, 2 * 2048 * 1024 * 2048
    useful = 2 * 2176 * 3000 * 4096 + 2 * 2048 * 1000 * 2048
    assert (out["executed_flops"], out["theoretical_flops"]) == (bf16 + fp8, useful)
    assert out["overhead_ratio"] == (bf16 + fp8 - useful) / useful
    assert out["bound"] == "exact"
    assert out["precision"] == pytest.approx(
        {"bf16": bf16 / (bf16 + fp8), "fp8": fp8 / (bf16 + fp8)}
    )
    assert out["attributed_share"] == pytest.approx(0.8)
    assert out["gpu"] == H100
    peak = (bf16 + fp8) / (bf16 / 989.4 + fp8 / 1978.9)
    assert out["effective_peak_tflops"] == pytest.approx(peak, rel=1e-3)
    assert out["adjusted_ofu"] is None
    (left,) = out["unattributed"]
    assert (left["kernel"], left["launches"]) == (FLASH, 1)


def test_an_ofu_is_adjusted(trace: Path) -> None:
    out = as_json("profile", trace, "--ofu", "0.5")
    assert out["adjusted_ofu"] == pytest.approx(0.5 / (1 + out["overhead_ratio"]))
    assert f"Adjusted OFU {out['adjusted_ofu']:.2%}" in shown("profile", trace, "--ofu", "0.5")


def test_a_table(trace: Path) -> None:
    text = shown("profile", trace)
    time, _, tiles = text.partition("\n\n")
    assert time.splitlines()[1].split()[:3] == ["-", "0", "NVIDIA"]
    assert "Work: product sm_90 " in time
    assert tiles.splitlines()[1].split() == [
        *("nvjet", "bf16", "1", "0.0006", "5.348e+10", "5.798e+10", "8.424%")
    ]
    assert "of 80.0% of the time in tensor kernels" in text
    assert f"TFLOP/s per {H100}" in text
    assert "0.0002 s in 1 launches of void flash_fwd_kernel" in text


def test_a_profile_without_shapes_says_what_is_missing(tmp_path: Path) -> None:
    table = tmp_path / "sum.csv"
    table.write_text(SUM)
    out = as_json("profile", table)
    assert (out["overhead_ratio"], out["precision"], out["attributed_share"]) == (None, {}, 0.0)
    assert {each["why"] for each in out["unattributed"]} == {NO_SHAPE}
    text = shown("profile", table)
    assert "Overhead not known: no kernel has both known sides and known tiles\n" in text


def test_shapes_make_up_for_it(tmp_path: Path) -> None:
    table, shapes = tmp_path / "sum.csv", tmp_path / "shapes.csv"
    table.write_text(SUM)
    shapes.write_text(f"kernel,m,n,k\n{NVJET},2176,3000,4096\n")
    out = as_json("profile", table, "--shapes", shapes)
    assert out["theoretical_flops"] == 3 * 2 * 2176 * 3000 * 4096
    assert out["overhead_ratio"] == pytest.approx(0.084235, abs=1e-6)


def test_counted_flops_make_an_effective_peak(tmp_path: Path) -> None:
    table = long(
        tmp_path / "a.csv",
        (NVJET, {f"{BF16}.sum": ("", "3000")}),
        (FP8, {"sm__ops_path_tensor_src_fp8.sum": ("", "1000")}),
    )
    out = as_json("profile", table, "--gpu", H100)
    assert out["precision"] == {"bf16": 0.75, "fp8": 0.25}
    assert out["effective_peak_tflops"] == pytest.approx(989.4 / (0.75 + 0.125), rel=1e-3)


def test_many_files_are_one_job(trace: Path) -> None:
    assert (
        as_json("profile", trace, trace)["theoretical_flops"]
        == 2 * as_json("profile", trace)["theoretical_flops"]
    )


def test_a_gpu_of_the_profile_that_is_not_known_has_no_peak(tmp_path: Path) -> None:
    trace = tracing.recorded()
    path = write(tmp_path / "t.json", kernel(NVJET, tracing.MM), trace=trace)
    path.write_text(path.read_text().replace(H100, "NVIDIA Unheard Of"))
    out = as_json("profile", path)
    assert (out["gpu"], out["effective_peak_tflops"]) == ("NVIDIA Unheard Of", None)


def test_a_profile_without_kernels_says_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": []}')
    assert (
        shown("profile", path).splitlines()[-1]
        == "The profile has no kernels: was the GPU profiled?"
    )
    assert as_json("profile", path)["bound"] is None
    write(path, kernel(ADD))
    assert shown("profile", path).splitlines()[-1] == "No kernel of it runs on a tensor pipe"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["gone.json"], "gone.json: No such file"),
        (["{trace}", "--ofu", "-1"], "--ofu: -1.0 is not a number of 0 or more"),
        (["{trace}", "--gpu", "H9000"], "gpu: 'H9000' is not known"),
        (["{trace}", "--shapes", "gone.csv"], "gone.csv: "),
    ],
)
def test_what_cannot_be_used_is_one_line(args: list[str], line: str, trace: Path) -> None:
    done = call("profile", *(str(trace) if arg == "{trace}" else arg for arg in args))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"ofu-exporter: {line}")


def test_csv_has_a_row_for_each_family_of_kernels(trace: Path) -> None:
    rows = [*csv.DictReader(io.StringIO(shown("profile", trace, "--format", "csv")))]
    assert [row["precision"] for row in rows] == [
        each["precision"] for each in as_json("profile", trace)["kernels"]
    ]
    assert (
        sum(int(row["executed_flops"]) for row in rows)
        == as_json("profile", trace)["executed_flops"]
    )
