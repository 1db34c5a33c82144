"""Profiles with each part changed: what is read of them or why not, golden; and what names of kernels are taken for."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import families, gemm_csv, job
from ofu_exporter.traces.kernel_names import parse
from tests.helpers.changed import outcomes
from tests.traces import trace_maker as made
from tests.traces.trace_maker import COMPUTE, NCCL, Maker

HERE = Path(__file__).parent
Judged = str | dict[str, Any]


def small_trace() -> dict[str, Any]:
    """One of each kind of event."""
    maker = Maker(rank=3)
    dims = {"Input Dims": [[4000, 4096], [4096, 6144]]}
    with maker.during("ProfilerStep#1"):
        maker.kernel(made.PRODUCT, 400.0)
        maker.events[-2]["args"].update(dims)
        maker.kernel(made.ADD, 25.0, "aten::add")
        maker.kernel(made.ALL_REDUCE, 300.0, "nccl:all_reduce", NCCL, after=maker.free[COMPUTE])
        maker.copy(made.TO_GPU, 30.0)
        maker.pause("dataloader", 900.0)
        maker.kernel(made.FLASH, 250.0, "aten::_flash_attention_forward")
        maker.wait()
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}
    return {
        "schemaVersion": 1,
        "deviceProperties": [device],
        "distributedInfo": {"rank": 3, "world_size": 8},
        "traceEvents": maker.events,
    }


def others(value: object) -> Iterator[object]:
    yield from (None, "other", -1)
    if isinstance(value, (int, float)):
        yield value + 500
    elif isinstance(value, list):
        yield from (value[:-1], value + value[-1:])


def plain(value: object) -> Any:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if each not in (None, {}, [], ())}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return f"{value:.6g}" if isinstance(value, float) else value


def profiled(path: Path) -> Judged:
    """The time and the launches of a file."""
    try:
        result, profiles = job.read([path])
    except ConfigError as error:
        return str(error).replace(str(path.parent), "")
    (rank, *_) = result.as_data()["time"]["ranks"] or [{}]
    kernels = [(each.pop("kernel")[:9], *each.values()) for each in rank.pop("kernels", ())]
    launches = [
        {key: str(plain(each))[:60] for key, each in asdict(one).items() if each}
        for profile in profiles
        for one in profile.launches
    ]
    findings = [(each.finding, each.seconds, each.evidence) for each in result.findings]
    lists = {"kernels": plain(kernels), "findings": plain(findings)}
    numbered = {f"launches {place}": each for place, each in enumerate(launches)}
    return {**plain(rank), **lists, **numbered}


def test_a_changed_trace_is_read_or_refused_as_it_was(
    golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    path = tmp_path / "rank3.json"

    def judged(content: dict[str, Any]) -> Judged:
        path.write_text(json.dumps(content))
        return profiled(path)

    golden("documents/trace.txt", outcomes(small_trace(), judged, others))


KERNEL, ADD = made.PRODUCT, made.ADD
BF16 = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
TABLES: dict[str, list[dict[str, str]]] = {
    "ncu": [
        {
            "ID": str(number),
            "Kernel Name": kernel,
            "Metric Name": metric,
            "Metric Unit": unit,
            "Metric Value": value,
        }
        for number, kernel in enumerate((KERNEL, ADD))
        for metric, unit, value in (
            ("gpu__time_duration.sum", "usecond", "1,000.5"),
            (BF16, "", "2,048"),
        )
    ],
    "nsys-sum": [
        {"Time (%)": "60.0", "Total Time (ns)": "6,000,000", "Instances": "3", "Name": KERNEL},
        {"Time (%)": "40.0", "Total Time (ns)": "1000000", "Instances": "5", "Name": ADD},
    ],
    "nsys-trace": [
        {"Start (ns)": "100", "Duration (ns)": "2000", "Device": "NVIDIA H200 (0)", "Name": KERNEL}
    ],
    "gemms": [{"kernel": KERNEL, "m": "128", "n": "256", "k": "64", "batch": "2", "launches": "3"}],
}


def cells(value: object) -> Iterator[object]:
    if isinstance(value, str):
        yield from ("", "x", "0", "-1", "1.5", "1e400", "7", "nan", value * 2)
        yield from ("msecond", "ms", "s", "second", "nsecond", "ns", "us", "minute")


@pytest.mark.parametrize("name", TABLES)
def test_a_changed_table_is_read_or_refused_as_it_was(
    name: str, golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"

    def judged(content: dict[str, Any]) -> Judged:
        rows = content.get("rows", [])
        with path.open("w", newline="") as file:
            heads = dict.fromkeys(key for row in rows for key in row)
            table = csv.DictWriter(file, heads)
            table.writeheader()
            table.writerows(rows)
        if name != "gemms":
            return profiled(path)
        try:
            return str(gemm_csv.read(path))
        except ConfigError as error:
            return str(error).replace(str(tmp_path), "")

    golden(f"documents/{name}.txt", outcomes({"rows": TABLES[name]}, judged, cells))


NAMES = f"""
{made.PRODUCT}|{made.FLASH}|{made.SGEMM}|{made.AMPERE}|{made.ADD}|{made.NORM}|{made.SOFTMAX}|{made.FUSED_ADAM}|{made.NHWC}
{made.ALL_REDUCE}|{made.SEND_RECEIVE}|{made.TO_GPU}|Memcpy DtoD (Device -> Device)|Memset (Device)|memset
ncclDevKernel_ReduceScatter_Sum_f32_RING_LL|ncclDevKernel_AllGather_RING_LL|ncclKernel_Broadcast_RING_LL_Sum_int8_t
rcclGenericKernel|void mscclpp_allreduce|nvshmem_quiet_on_stream|deep_ep::intranode::dispatch|void nccl_alltoall_kernel
ampere_scudnn_128x64_relu_small_nn|volta_sgemm_32x128_tn|void gemv2T_kernel_val<int>|dgrad2d_grouped_direct_kernel
void im2col_kernel<float>|void permute_kernel<float>|void batchnorm_bwd|void welford_kernel|rms_norm_kernel
embedding_bag_kernel|jagged_dense|bounds_check_indices_kernel|void reduce_kernel<512, 1>|void cub::DeviceScanKernel
void indexSelectLargeIndex<float>|radixSortKVInPlace|triton_poi_fused_add_0|void dropout_kernel|gelu_backward
foreach_add|fmha_cutlassF_f16_aligned|cudnn_generated_fort_native_sdpa_sm90|mha_varlen|sm90_xmma_fprop_implicit_gemm_bf16|wgrad_alg0
sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32_stage4|cutlass3x_sm100_tensorop_s256x128x16gemm_bf16
turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn|nvjet_tst_64x8_64x16_4x1_v_bz_TNT|void unknown|
"""


def test_names_of_kernels_are_taken_for_what_they_were(golden: Callable[[str, str], None]) -> None:
    rows = csv.DictReader((HERE / "kernel_names.csv").read_text().splitlines())
    names = [*(row["name"] for row in rows)]
    names += [each for line in NAMES.strip().split("\n") for each in line.split("|")]
    lines = []
    for name in names:
        try:
            tile = str(plain(asdict(parse(name))))
        except ConfigError as error:
            tile = str(error)
        family = families.kernel_family(name)
        made_for = families.architecture_of(name)
        lines.append(f"{name}: {families.kind_of(name).value}, {family}, {made_for}, {tile}")
        operator = families.collective_of(name, "nccl:_reduce_scatter_base")
        lines.append(f"  launched by a reduce-scatter: {operator}")
    golden("kernel-families.txt", "\n".join(lines) + "\n")
