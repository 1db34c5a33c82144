"""Which file is read by which reader, and which kernels are on tensor pipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import formats
from tests.traces.formats.tracing import ADD, FLASH, NVJET


@pytest.mark.parametrize("content", [b"", b"a,b,c\n1,2,3\n", b"\x00\x01", b"NVPROF"])
def test_an_unknown_file_is_told_what_is_known(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "report.nsys-rep"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        formats.read(path)
    assert str(caught.value).startswith(f"{path} is not a profile in a known format; known: ")
    for name in formats.names():
        assert f"{name}: {formats.load(name).MADE_BY}" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.json: No such file"):
        formats.read(tmp_path / "gone.json")


@pytest.mark.parametrize(
    "kernel",
    [
        NVJET,
        FLASH,
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>>>",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128",
        "sm80_xmma_fprop_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64",
        "triton_tem_fused_mm_bmm_3",
        "triton_tem_fused_addmm_2",
        "matmul_kernel_persistent",
        "fused_moe_kernel",
        "void wgmma_kernel",
        "void deep_gemm::fp8_gemm_kernel<4096u>",
        "fmha_v2_flash_attention_bf16_64_128_S_qkv_128_sm90_kernel",
        "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_sp_NNT",
    ],
)
def test_on_tensor_pipes(kernel: str) -> None:
    assert formats.on_tensor_pipe(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        ADD,
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>",
        "ampere_sgemm_32x128_tn",
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>",
        "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>",
        "cutlass_80_simt_sgemm_64x64_8x5_tn_align1",
        "void gemv2T_kernel_val<int, int, float, float, float>",
        "void flashinfer::norm::GemmaRMSNormKernel<8u, __nv_bfloat16>",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x16_stage3_warpsize2x2x1_ff",
        "Memcpy HtoD (Pinned -> Device)",
        "void at::native::convert_kernel",
        "triton_poi_fused_bmm_clone_4",
        "triton_per_fused_matmul_sum_1",
        "triton_red_fused__scaled_dot_product_flash_attention_2",
        "void at::native::GammaBetaBackwardCUDAKernelTemplate<float, float, 64u>",
        "void at::native::vectorized_elementwise_kernel<4, lgamma_kernel_cuda>",
    ],
)
def test_not_on_tensor_pipes(kernel: str) -> None:
    assert not formats.on_tensor_pipe(kernel)
