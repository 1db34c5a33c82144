"""What kernel names say: names as profilers show them, on each architecture, and those that say too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.gpu_models import PRECISIONS
from ofu_exporter.traces import kernel_names

Tile = tuple[int, int, int | None]
Cluster = tuple[int, int] | None

# name, family, architecture, precision, tile, stages, cluster
READ: list[tuple[str, str, str | None, str, Tile, int | None, Cluster]] = [
    (
        "nvjet_sm90_tst_192x8_64x8_2x1_v_bz_TNT",
        "nvjet",
        "sm90",
        "bf16",
        (192, 8, 64),
        8,
        (2, 1),
    ),
    (
        "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT",
        "nvjet",
        None,
        "fp16",
        (256, 128, 64),
        4,
        (1, 2),
    ),
    (
        "nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_bias_TNT",
        "nvjet",
        "sm100",
        "fp8",
        (128, 256, 128),
        6,
        (2, 1),
    ),
    (
        "nvjet_sm100_oosss_128x256_256x5_2x1_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT",
        "nvjet",
        "sm100",
        "fp4",
        (128, 256, 256),
        5,
        (2, 1),
    ),
    ("nvjet_sm90_sss_128x64_32x4_1x1_v_bz_TNT", "nvjet", "sm90", "tf32", (128, 64, 32), 4, (1, 1)),
    (
        "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN",
        "nvjet",
        "sm120",
        "bf16",
        (64, 64, 128),
        3,
        (1, 1),
    ),
    (
        "nvjet_sm120_qqtst_mma_128x128x64_6_w64x64x64_tmaAB_bz_TNNN",
        "nvjet",
        "sm120",
        "fp8",
        (128, 128, 64),
        6,
        (1, 1),
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)",
        "cutlass2",
        "sm80",
        "bf16",
        (256, 128, 32),
        3,
        (1, 1),
    ),
    (
        "cutlass_80_tensorop_s16816gemm_f16_128x64_64x6_tn_align8",
        "cutlass2",
        "sm80",
        "fp16",
        (128, 64, 64),
        6,
        (1, 1),
    ),
    (
        "cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8",
        "cutlass2",
        "sm80",
        "fp16",
        (16, 16, 128),
        2,
        (1, 1),
    ),
    (
        "cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4",
        "cutlass2",
        "sm80",
        "tf32",
        (64, 64, 16),
        6,
        (1, 1),
    ),
    (
        "cutlass_80_tensorop_d884gemm_128x64_16x3_nt_align1",
        "cutlass2",
        "sm80",
        "fp64",
        (128, 64, 16),
        3,
        (1, 1),
    ),
    (
        "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_ttt_align8"
        "_warpspecialized_pingpong_epi_tma",
        "cutlass3",
        "sm90",
        "fp16",
        (128, 128, 64),
        None,
        (2, 1),
    ),
    (
        "cutlass3x_sm100_tensorop_s256x256x16gemm_f16_f16_f32_f16_f16_256x256x64_0_tnn_align8_2sm",
        "cutlass3",
        "sm100",
        "fp16",
        (256, 256, 64),
        None,
        None,
    ),
    (
        "cutlass3x_sm120_bstensorop_s16864gemm_block_scaled_ue4m3xe2m1_ue4m3xe2m1_f32_bf16_bf16"
        "_128x128x256_1x1x1_0_tnn_align32_o_vs16_bias_bf16_relu",
        "cutlass3",
        "sm120",
        "fp4",
        (128, 128, 256),
        None,
        (1, 1),
    ),
    (
        "cutlass3x_sm120_bstensorop_s16832gemm_block_scaled_ue8m0xe4m3_ue8m0xe4m3_f32_bf16_bf16"
        "_128x128x128_1x1x1_0_tnn_align16_q_bias_bf16_relu",
        "cutlass3",
        "sm120",
        "fp8",
        (128, 128, 128),
        None,
        (1, 1),
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"
        "_execute_segment_k_off_kernel__5x_cublas",
        "xmma",
        "sm90",
        "bf16",
        (128, 128, 64),
        None,
        None,
    ),
    (
        "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_cgasize2x1x1_warpgroupsize1x1x1",
        "xmma",
        "sm90",
        "tf32",
        (128, 128, 32),
        None,
        (2, 1),
    ),
    (
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel",
        "xmma",
        "sm80",
        "fp16",
        (96, 128, 32),
        4,
        (1, 1),
    ),
    (
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
        "cublas",
        "sm80",
        "bf16",
        (128, 256, 64),
        3,
        (1, 1),
    ),
    (
        "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x5_tn",
        "cublas",
        "sm80",
        "fp16",
        (64, 64, 64),
        5,
        (1, 1),
    ),
    (
        "trt_ampere_h16816gemm_256x64_ldg8_tn_v1",
        "cublas",
        "sm80",
        "fp16",
        (256, 64, None),
        None,
        (1, 1),
    ),
    (
        "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn",
        "cublas",
        "sm70",
        "fp16",
        (128, 64, None),
        None,
        (1, 1),
    ),
]


@pytest.mark.parametrize("row", READ, ids=lambda row: row[0][:60])
def test_a_name_is_read(
    row: tuple[str, str, str | None, str, Tile, int | None, Cluster],
) -> None:
    name, *wanted = row
    kernel = kernel_names.parse(name)
    read = (kernel.family, kernel.architecture, kernel.precision, kernel.tile)
    assert [*read, kernel.stages, kernel.cluster] == wanted


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


@pytest.mark.parametrize("family", kernel_names.GRAMMARS)
def test_the_example_of_a_family_is_its_own_and_nobody_elses(family: str) -> None:
    grammars = kernel_names.GRAMMARS
    example = grammars[family].example
    assert [name for name, grammar in grammars.items() if grammar.read(example)] == [family]
    assert kernel_names.parse(example).family == family


def test_only_nvjet_without_split_k_is_exact() -> None:
    exact = {name for name, *_ in READ if kernel_names.parse(name).bound == "exact"}
    assert exact == {name for name, family, *_ in READ if family == "nvjet"}
    split = kernel_names.parse("nvjet_tst_64x24_64x16_4x1_v_bz_splitK_TNT")
    assert (split.bound, len(split.unknown)) == ("lower", 1)


def test_a_name_without_a_cluster_says_so() -> None:
    kernel = kernel_names.parse(
        "cutlass3x_sm100_tensorop_s256x256x16gemm_f16_f16_f32_f16_f16_256x256x64_0_tnn_align8_2sm"
    )
    assert kernel_names.NO_CLUSTER in kernel.unknown


def test_every_precision_is_one_that_gpus_are_rated_in() -> None:
    assert {kernel_names.parse(name).precision for name, *_ in READ} <= {*PRECISIONS}


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(name: str) -> None:
    kernel = kernel_names.find(name)
    assert kernel is None or kernel.family in kernel_names.GRAMMARS


@given(
    st.sampled_from([name for name, *_ in READ]),
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
