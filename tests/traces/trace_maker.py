"""Makes traces of PyTorch's profiler whose truth is known: a clock, a host and a GPU that runs what it is told.

Nothing of the package takes part: a second here is a second that the maker spent, and what the package says is
compared with that. Names are as CUDA 12, NCCL and torch 2 have them (the real traces of HolisticTraceAnalysis).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PRODUCT = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
SGEMM = "ampere_sgemm_128x64_nn"
AMPERE = "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>"
FUSED_ADAM = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>"
NHWC = (
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECEIVE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
TO_GPU = "Memcpy HtoD (Pinned -> Device)"

CALL = 4.0
"""Microseconds of a launch on the host, and from its end to the start of a kernel on an empty GPU."""
COMPUTE, NCCL = 7, 20
"""Streams."""


class Maker:
    """One process with one GPU. Times are microseconds; the host's clock goes on by what it does."""

    def __init__(self, rank: int | None = None, skew: float = 0.0, start: float = 1000.0) -> None:
        self.events: list[dict[str, Any]] = []
        self.host = start
        self.free = {COMPUTE: start, NCCL: start}
        """When each stream has run all that it was given."""
        self.ran: list[tuple[float, float, str]] = []
        self.idle = 0.0
        """Microseconds in which nothing ran."""
        self._rank, self._skew = rank, skew
        self._id = 100

    def kernel(
        self,
        name: str,
        duration: float,
        operator: str = "aten::mm",
        stream: int = COMPUTE,
        **more: Any,
    ) -> tuple[float, float]:
        """Launch a kernel from within an operator; returns when it runs."""
        began = self.host
        self._id += 1
        self._add("cuda_runtime", "cudaLaunchKernel", began + 1, CALL - 2, correlation=self._id)
        self._add("cpu_op", operator, began, CALL, **{"External id": self._id})
        self.host += CALL
        start = max(self.free[stream], self.host, more.pop("after", 0.0))
        return self._runs("kernel", name, start, duration, stream, more)

    def copy(self, name: str, duration: float, stream: int = COMPUTE) -> tuple[float, float]:
        """Launch a copy."""
        self._id += 1
        self._add("cuda_runtime", "cudaMemcpyAsync", self.host, CALL, correlation=self._id)
        self.host += CALL
        return self._runs(
            "gpu_memcpy", name, max(self.free[stream], self.host), duration, stream, {}
        )

    def _runs(
        self, kind: str, name: str, start: float, duration: float, stream: int, more: dict[str, Any]
    ) -> tuple[float, float]:
        self.idle += max(start - max(self.free.values()), 0.0)
        self.free[stream] = start + duration
        self.ran.append((start, start + duration, name))
        more = {"device": 0, "stream": stream, "correlation": self._id, **more}
        self._add(kind, name, start, duration, pid=0, tid=stream, **more)
        return start, start + duration

    @contextmanager
    def during(self, name: str, kind: str = "user_annotation") -> Iterator[None]:
        """What the host does within is part of this."""
        began = self.host
        yield
        self._add(kind, name, began, self.host - began)

    def pause(self, name: str, duration: float, kind: str = "user_annotation") -> None:
        """The host is in something that launches nothing."""
        self._add(kind, name, self.host, duration)
        self.host += duration

    def wait(self, name: str = "cudaStreamSynchronize") -> None:
        """The host waits until the GPU is empty."""
        until = max(self.host, *self.free.values()) + 2
        self._add("cuda_runtime", name, self.host, until - self.host, correlation=0)
        self.host = until

    def _add(self, kind: str, name: str, at: float, duration: float, **args: Any) -> None:
        place = {"pid": args.pop("pid", 900), "tid": args.pop("tid", 900)}
        times = {"ts": at + self._skew, "dur": duration}
        self.events.append({"ph": "X", "cat": kind, "name": name, **place, **times, "args": args})

    def span(self) -> float:
        return max(end for _, end, _ in self.ran) - min(start for start, _, _ in self.ran)

    def write(self, path: Path, gpu: str = "NVIDIA H100 80GB HBM3", capability: int = 90) -> Path:
        device = {
            "id": 0,
            "name": gpu,
            "computeMajor": capability // 10,
            "computeMinor": capability % 10,
        }
        whole: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [device]}
        if self._rank is not None:
            whole["distributedInfo"] = {"backend": "nccl", "rank": self._rank, "world_size": 8}
        text = json.dumps({**whole, "traceEvents": self.events})
        path.write_bytes(
            gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
        )
        return path
