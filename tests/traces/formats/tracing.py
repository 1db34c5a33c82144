"""A PyTorch trace: what torch's CPU build recorded, and kernels in the form that its CUDA build writes.

`torch_cpu_trace.json` was recorded by torch 2.13.0 on a CPU (`record` below is how), and cut down to products.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ofu_exporter.traces.formats import KernelLaunches, Profile

RECORDED = Path(__file__).parent / "torch_cpu_trace.json"

ADDMM, MM_BACKWARD, BMM, BADDBMM, MM, INT_MM, LINEAR = 6, 34, 60, 66, 76, 86, 1
"""External ids of the recorded operators."""

H100 = "NVIDIA H100 80GB HBM3"
NVJET = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
FP8 = "nvjet_sm90_qqtst_128x128_128x4_1x1_v_bz_TNT"
XMMA = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def kernel(
    name: str,
    operator: int | None = None,
    correlation: int = 0,
    microseconds: float = 100.0,
    **arguments: object,
) -> dict[str, Any]:
    """A kernel as Kineto writes it."""
    ids = {} if operator is None else {"External id": operator}
    args = {
        **ids,
        "queued": 0,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": correlation,
        "registers per thread": 168,
        "shared memory": 188636,
        "blocks per SM": 1.0,
        "warps per SM": 12.0,
        "grid": [2, 39, 1],
        "block": [384, 1, 1],
        "est. achieved occupancy %": 0,
        **arguments,
    }
    timing = {"pid": 0, "tid": 7, "ts": 429685234108.312, "dur": microseconds}
    return {"ph": "X", "cat": "kernel", "name": name, **timing, "args": args}


def launch(correlation: int, operator: int) -> dict[str, Any]:
    """The call that launched a kernel, as Kineto writes it."""
    args = {"External id": operator, "cbid": 211, "correlation": correlation}
    timing = {"pid": 100, "tid": 100, "ts": 1.0, "dur": 5.0}
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **timing, "args": args}


def operator(name: str, identity: int, *dims: list[int], **arguments: object) -> dict[str, Any]:
    """An operator as Kineto writes it."""
    args = {"External id": identity, "Input Dims": [*dims], "Ev Idx": identity, **arguments}
    timing = {"pid": 100, "tid": 100, "ts": 1.0, "dur": 5.0}
    return {"ph": "X", "cat": "cpu_op", "name": name, **timing, "args": args}


def recorded() -> dict[str, Any]:
    """The recording of the CPU."""
    read: dict[str, Any] = json.loads(RECORDED.read_text())
    return read


def write(path: Path, *events: dict[str, Any], trace: dict[str, Any] | None = None) -> Path:
    """A trace with more events, packed where its name says so, of an H100."""
    whole = recorded() if trace is None else trace
    whole["deviceProperties"] = [{"id": 0, "name": H100, "totalGlobalMem": 85044297728}]
    whole["traceEvents"] = [*whole["traceEvents"], *events]
    text = json.dumps(whole, indent=2)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def rounded(profile: Profile) -> tuple[KernelLaunches, ...]:
    """What a profile says, its times to the picosecond, so that they compare."""
    return tuple(replace(each, seconds=round(each.seconds, 12)) for each in profile.launches)


def record(path: Path, torch: Any) -> None:
    """Record, with torch itself, what `torch_cpu_trace.json` was cut down from."""
    layer = torch.nn.Linear(64, 96)
    left, right = torch.randn(3, 16, 32), torch.randn(3, 32, 24)
    small = torch.ones(32, 64, dtype=torch.int8), torch.ones(64, 16, dtype=torch.int8)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        layer(torch.randn(4, 8, 64)).sum().backward()
        torch.bmm(left, right)
        torch.baddbmm(torch.zeros(3, 16, 24), left, right)
        torch.mm(torch.randn(17, 64), torch.randn(64, 40))
        torch._int_mm(*small)
    profiler.export_chrome_trace(str(path))
