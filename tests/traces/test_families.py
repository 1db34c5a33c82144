"""A name of a kernel, as profilers show it, says of which kind and family its work is."""

from __future__ import annotations

from ofu_exporter.traces.families import Kind, collective_of, kernel_family, kind_of
from tests.helpers.every import every


@every(
    {
        "Memcpy HtoD (Pageable -> Device)": (Kind.COPY, "Memcpy HtoD"),
        "Memset (Device)": (Kind.COPY, "memset"),
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
            *(Kind.COMMUNICATION, "all-reduce"),
        ),
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": (
            *(Kind.COMMUNICATION, "send and receive"),
        ),
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": (
            *(Kind.TENSOR, "product sm_80"),
        ),
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn": (Kind.TENSOR, "product sm_70"),
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn": (Kind.TENSOR, "product sm_75"),
        "sm80_xmma_wgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x64x32_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn": (  # noqa: E501 - as cuDNN names it
            *(Kind.TENSOR, "convolution sm_80"),
        ),
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>": (
            *(Kind.OTHER, "FP32 product"),
        ),
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>": (
            *(Kind.OTHER, "element-wise"),
        ),
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>": (
            *(Kind.OTHER, "optimizer"),
        ),
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>": (
            *(Kind.OTHER, "softmax"),
        ),
        "something_of_ones_own": (Kind.OTHER, "other"),
    }.items()
)
def test_a_name_says_its_kind_and_family(name: str, said: tuple[Kind, str]) -> None:
    assert (kind_of(name), kernel_family(name)) == said


def test_what_launched_a_collective_says_more_than_its_kernel() -> None:
    """NCCL runs an all-to-all as a kernel of sends and receives."""
    kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    assert collective_of(kernel, "nccl:all_to_all") == "all-to-all"
    assert collective_of(kernel, "") == "send and receive"
