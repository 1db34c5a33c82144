"""What kernel names say: names as profilers show them, on each architecture, and those that say too little."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.gpu_models import PRECISIONS
from ofu_exporter.traces import kernel_names

TABLE = Path(__file__).with_name("kernel_names.csv")
READ = [*csv.DictReader(TABLE.read_text().splitlines())]
"""Names, and what they say: empty is not said."""


def sides(numbers: Iterable[int | None] | None) -> str:
    return "x".join("" if number is None else str(number) for number in numbers or ())


@pytest.mark.parametrize("row", READ, ids=lambda row: row["name"][:60])
def test_a_name_is_read(row: dict[str, str]) -> None:
    kernel = kernel_names.parse(row["name"])
    assert row == {
        "family": kernel.family,
        "architecture": kernel.architecture or "",
        "precision": kernel.precision,
        "tile": sides(kernel.tile),
        "stages": sides([kernel.stages]),
        "cluster": sides(kernel.cluster),
        "name": row["name"],
    }


@pytest.mark.parametrize(
    "name",
    [
        "ampere_sgemm_32x128_tn",
        "cutlass_80_simt_sgemm_64x64_8x5_tn_align1",
        "cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x128x16_1x1x1_3_tnn_align1_bias_f32_relu",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x16_stage3_warpsize2x2x1_ff_main_v1",
        "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_sp_NNT",
        "cutlass3x_sm90_sptensorop_s64x128x32gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8",
        "cublasLt::splitKreduce_kernel",
        "flash_fwd_kernel",
        "nvjet_sm120_qqhsh_mma_128x64x64",
        "nvjet_sm90_tst_128x8_TNT",
        "nvjet_sm90_hsh_0x160_64x4_2x1",
        "nvjet_sm90_hsh_256x160_0x4_2x1",
        "nvjet_sm90_hsh_256x160_64x4_0x1",
        "nvjet_sm90_hsh_256x160_64x4_2x999999",
        f"nvjet_sm90_hsh_{'9' * 5000}x160_64x4_2x1",
        "cutlass_80_tensorop_s16816gemm_f16_0x64_64x6_tn_align8",
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x999999_stage4_warpsize2x2x1",
        f"sm{'9' * 5000}_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4",
        "",
    ],
)
def test_what_is_not_on_a_tensor_pipe_is_sparse_cut_short_or_none_is_refused(name: str) -> None:
    assert kernel_names.find(name) is None
    with pytest.raises(ConfigError) as caught:
        kernel_names.parse(name)
    assert repr(name)[:1000] in str(caught.value)  # the middle of a longer one is cut
    for family, grammar in kernel_names.GRAMMARS.items():
        assert f"{family} ({grammar.example})" in str(caught.value)


def test_every_family_is_read_above() -> None:
    assert {row["family"] for row in READ} == {*kernel_names.GRAMMARS}


@pytest.mark.parametrize("family", kernel_names.GRAMMARS)
def test_the_example_of_a_family_is_its_own_and_nobody_elses(family: str) -> None:
    grammars = kernel_names.GRAMMARS
    example = grammars[family].example
    assert [name for name, grammar in grammars.items() if grammar.read(example)] == [family]
    assert kernel_names.parse(example).family == family


def test_only_nvjet_without_split_k_is_exact() -> None:
    exact = {row["name"] for row in READ if kernel_names.parse(row["name"]).bound == "exact"}
    assert exact == {row["name"] for row in READ if row["family"] == "nvjet"}
    split = kernel_names.parse("nvjet_tst_64x24_64x16_4x1_v_bz_splitK_TNT")
    assert (split.bound, len(split.unknown)) == ("lower", 1)


def test_a_name_without_a_cluster_says_so() -> None:
    kernel = kernel_names.parse(
        "cutlass3x_sm100_tensorop_s256x256x16gemm_f16_f16_f32_f16_f16_256x256x64_0_tnn_align8_2sm"
    )
    assert kernel_names.NO_CLUSTER in kernel.unknown


def test_every_precision_is_one_that_gpus_are_rated_in() -> None:
    assert {kernel_names.parse(row["name"]).precision for row in READ} <= {*PRECISIONS}


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(name: str) -> None:
    kernel = kernel_names.find(name)
    assert kernel is None or kernel.family in kernel_names.GRAMMARS


@given(
    st.sampled_from([row["name"] for row in READ]),
    st.text("abx0189_", max_size=4),
    st.integers(0, 100),
)
def test_a_damaged_name_never_breaks_the_reader(name: str, put: str, at: int) -> None:
    kernel = kernel_names.find(name[:at] + put + name[at:])
    assert kernel is None or kernel.family in kernel_names.GRAMMARS


def test_operands_of_two_precisions_are_multiplied_in_the_wider() -> None:
    assert (
        kernel_names.parse("nvjet_sm100_oqtst_128x256_128x6_2x1_2cta_v_bz_TNT").precision == "fp8"
    )
    mixed = "cutlass_80_tensorop_bf16_s16816gemm_{}_64x64_64x6_tn_align8"
    assert {kernel_names.parse(mixed.format(of)).precision for of in ("s8_bf16", "bf16_s8")} == {
        "bf16"
    }
    assert (
        kernel_names.parse("cutlass_80_tensorop_i16864gemm_s4_64x64_128x6_tn_align32").precision
        == "int4"
    )
