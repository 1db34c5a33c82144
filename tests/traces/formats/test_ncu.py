"""What Nsight Compute writes: FLOPs that the hardware counted in each launch, in both forms of its table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import formats
from ofu_exporter.traces.formats import NO_SHAPE, KernelLaunches, ncu
from tests.traces.formats.tracing import ADD, FP8, NVJET, rounded

BF16 = "sm__ops_path_tensor_src_bf16_dst_fp32"
LONG = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Section Name",'
)
LONG += '"Metric Name","Metric Unit","Metric Value"'


def long(path: Path, *launches: tuple[str, Mapping[str, tuple[str, str]]]) -> Path:
    """The form with a row for each metric."""
    rows = [
        f'"{number}","9","python","node","{kernel}","1","7","Command line profiler metrics",'
        f'"{metric}","{unit}","{value}"'
        for number, (kernel, metrics) in enumerate(launches)
        for metric, (unit, value) in metrics.items()
    ]
    path.write_text("\n".join(["==PROF== Connected to process 9", LONG, *rows, ""]))
    return path


def test_flops_are_summed_by_kernel(tmp_path: Path) -> None:
    metrics = {
        "gpu__time_duration.sum": ("usecond", "1,000.5"),
        f"{BF16}.sum": ("", "2,147,483,648"),
    }
    idle = {"gpu__time_duration.sum": ("nsecond", "500"), f"{BF16}.sum": ("", "0")}
    path = long(tmp_path / "a.csv", (NVJET, metrics), (NVJET, metrics), (ADD, idle))
    profile = formats.read(path)
    assert profile.format == "ncu"
    assert rounded(profile) == (
        KernelLaunches(NVJET, 2, 2.001e-3, why=NO_SHAPE, counted_flops={"bf16": 2 * 2_147_483_648}),
    )
    assert profile.other_seconds == pytest.approx(5e-7)


def test_the_form_with_a_row_for_each_launch(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(
        f'"ID","Kernel Name","gpu__time_duration.sum","{BF16}.sum"\n'
        '"","","ms",""\n'
        f'"0","{NVJET}","2","1,024"\n'
        f'"1","{NVJET}","3","1,024"\n'
    )
    (launches,) = rounded(formats.read(path))
    assert (launches.number, launches.seconds) == (2, 5e-3)
    assert launches.counted_flops == {"bf16": 2048}


@pytest.mark.parametrize(
    ("counters", "flops"),
    [
        ({"src_bf16_dst_fp32": 10}, {"bf16": 10}),
        ({"src_fp16_dst_fp16": 1, "src_fp16_dst_fp32": 10}, {"fp16": 11}),
        ({"src_fp16": 11, "src_fp16_dst_fp16": 1, "src_fp16_dst_fp32": 10}, {"fp16": 11}),
        (
            {
                "src_bf16_dst_fp32": 10,
                "src_bf16_dst_fp32_sparsity_off": 7,
                "src_bf16_dst_fp32_sparsity_on": 3,
            },
            {"bf16": 10},
        ),
        ({"src_bf16_dst_fp32_sparsity_off": 7, "src_bf16_dst_fp32_sparsity_on": 3}, {"bf16": 10}),
        ({"src_fp8": 5, "src_int8": 0, "src_fp64": 2}, {"fp8": 5, "fp64": 2}),
    ],
)
def test_no_flop_is_counted_twice(
    counters: Mapping[str, int], flops: Mapping[str, int], tmp_path: Path
) -> None:
    metrics = {f"sm__ops_path_tensor_{name}.sum": ("", str(n)) for name, n in counters.items()}
    (launches,) = formats.read(long(tmp_path / "a.csv", (FP8, metrics))).launches
    assert launches.counted_flops == flops


def test_flops_count_whatever_the_kernel_is_called(tmp_path: Path) -> None:
    path = long(tmp_path / "a.csv", ("my_kernel", {f"{BF16}.sum": ("", "64")}))
    assert [each.kernel for each in formats.read(path).launches] == ["my_kernel"]


def test_a_table_without_the_counters_says_which(tmp_path: Path) -> None:
    metrics = {"sm__inst_executed_pipe_tensor.sum": ("inst", "1000")}
    with pytest.raises(ConfigError, match=r"has no counter of tensor FLOPs: record with ncu"):
        formats.read(long(tmp_path / "a.csv", (NVJET, metrics)))


def test_what_is_no_number_is_named(tmp_path: Path) -> None:
    path = long(tmp_path / "a.csv", (NVJET, {f"{BF16}.sum": ("", "n/a")}))
    with pytest.raises(ConfigError, match=r"a\.csv: 'n/a' is not a number"):
        formats.read(path)


@pytest.mark.parametrize("odd", ["nan", "inf", "-1", "1.234,56", "1234,56", "1 234", "1'234"])
def test_numbers_of_another_language_are_not_guessed_at(odd: str, tmp_path: Path) -> None:
    path = long(tmp_path / "a.csv", (NVJET, {f"{BF16}.sum": ("", "1"), ncu.TIME: ("ms", odd)}))
    with pytest.raises(ConfigError, match=r"is not a number .* make the file with LC_ALL=C"):
        formats.read(path)


@pytest.mark.parametrize(("value", "unit"), [("1.234", ""), ("1", "Gop"), ("1.5", "Kinst")])
def test_counts_that_have_lost_digits_are_refused(value: str, unit: str, tmp_path: Path) -> None:
    path = long(tmp_path / "a.csv", (NVJET, {f"{BF16}.sum": (unit, value)}))
    with pytest.raises(ConfigError, match=r"is no whole count: .* --print-units base"):
        formats.read(path)


def test_a_unit_that_is_not_known_is_named(tmp_path: Path) -> None:
    path = long(tmp_path / "a.csv", (NVJET, {f"{BF16}.sum": ("", "1"), ncu.TIME: ("week", "1")}))
    with pytest.raises(ConfigError, match=r"'week' is no unit of time; known: second, "):
        formats.read(path)


def test_columns_in_any_order_behind_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = f'"ID","{BF16}.sum","Kernel Name"\n"","",""\n"0","64","{NVJET}"\n'
    path.write_text(text, encoding="utf-8-sig")
    assert formats.read(path).launches[0].counted_flops == {"bf16": 64}
