"""Builds products in torch, in every precision that it supports, and runs them on a CUDA GPU.

Launches are queued in chunks, of which two are always waiting, so that the GPU never waits for Python. A CUDA event
marks a chunk's end, and its time is read on the sampler's clock.

A product is row-major, C[m, n] = A[m, k] B[k, n]. In the narrow precisions B is given transposed, as cuBLAS needs it.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ofu_exporter.errors import ConfigError, SourceError
from ofu_exporter.support.extras import install_command
from ofu_exporter.traces import formats
from ofu_exporter.traces.formats import Profile
from ofu_exporter.validation import Mark, Product
from ofu_exporter.values.reasons import Reason

CHUNK_SECONDS = 0.05
CHUNKS_QUEUED = 2
PROFILED_LAUNCHES = 3
PROBE_SIDE = 512
"""Sides of the test product that shows whether a precision can be run."""


Launch = Callable[[], object]
"""Launches one product."""


def build(torch: Any, product: Product, device: str) -> Launch:
    """Make the operands of a product; returns a function that launches it. Raises torch's own errors if torch has no
    such product."""
    return BUILDERS[product.precision](torch, product, device)


def _plain(type_: str) -> Callable[[Any, Product, str], Launch]:
    """The ordinary product of two matrices of one type; sums are in FP32, those of FP64 in FP64."""

    def build_plain(torch: Any, product: Product, device: str) -> Launch:
        dtype = getattr(torch, type_)
        left = _values(torch, product, (product.m, product.k), device).to(dtype)
        right = _values(torch, product, (product.k, product.n), device).to(dtype)
        out = torch.empty((product.m, product.n), dtype=dtype, device=device)
        return lambda: torch.mm(left, right, out=out)

    return build_plain


def _tf32(torch: Any, product: Product, device: str) -> Launch:
    torch.set_float32_matmul_precision("high")  # FP32 operands are rounded to TF32
    return _plain("float32")(torch, product, device)


def _fp8(torch: Any, product: Product, device: str) -> Launch:
    """FP8 with one scale for each operand. Sums stay in the tensor pipe, as the quoted peak assumes."""
    type_ = torch.float8_e4m3fn
    left = _values(torch, product, (product.m, product.k), device).to(type_)
    right = _values(torch, product, (product.n, product.k), device).to(type_).t()
    scale = torch.ones((), device=device)
    return lambda: torch._scaled_mm(
        left, right, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _int8(torch: Any, product: Product, device: str) -> Launch:
    def values(rows: int, columns: int) -> Any:
        if product.zeros:
            return torch.zeros((rows, columns), dtype=torch.int8, device=device)
        return torch.randint(-128, 128, (rows, columns), dtype=torch.int8, device=device)

    left, right = values(product.m, product.k), values(product.n, product.k).t()
    return lambda: torch._int_mm(left, right)


def _fp4(torch: Any, product: Product, device: str) -> Launch:
    """NVFP4: two elements in a byte, and a scale in FP8 for every 16 elements along K."""

    def values(rows: int) -> Any:
        most = 1 if product.zeros else 256
        bytes_ = torch.randint(0, most, (rows, product.k // 2), dtype=torch.uint8, device=device)
        return bytes_.view(torch.float4_e2m1fn_x2)

    def scales(rows: int) -> Any:
        return torch.ones(rows * product.k // 16, device=device).to(torch.float8_e4m3fn)

    left, right = values(product.m), values(product.n).t()
    scale_left, scale_right = scales(product.m), scales(product.n)
    return lambda: torch._scaled_mm(
        left, right, scale_a=scale_left, scale_b=scale_right, out_dtype=torch.bfloat16
    )


def _values(torch: Any, product: Product, sides: tuple[int, int], device: str) -> Any:
    """Normally distributed numbers, like activations and weights, because the power draw depends on the values."""
    make = torch.zeros if product.zeros else torch.randn
    return make(sides, device=device)


BUILDERS: Mapping[str, Callable[[Any, Product, str], Launch]] = {
    "bf16": _plain("bfloat16"),
    "fp16": _plain("float16"),
    "tf32": _tf32,
    "fp64": _plain("float64"),
    "fp8": _fp8,
    "int8": _int8,
    "fp4": _fp4,
}


class CudaMachine:
    def __init__(self, index: int) -> None:
        """Raises ConfigError without torch or such a GPU, SourceError when torch sees no GPU at all."""
        self._torch = _torch()
        count = self._torch.cuda.device_count()
        if count == 0 or not self._torch.cuda.is_available():
            detail = f"torch {self._torch.__version__} sees no CUDA GPU"
            raise SourceError(Reason.NO_GPU, detail)
        if not 0 <= index < count:
            raise ConfigError(f"--gpu: torch has GPUs 0 to {count - 1}, not {index}")
        self._device = f"cuda:{index}"
        self._torch.cuda.set_device(index)
        self.uuid = f"GPU-{self._torch.cuda.get_device_properties(index).uuid}"
        self.software: Mapping[str, str] = {
            "torch": str(self._torch.__version__),
            "cuda": str(self._torch.version.cuda),
        }

    def refusals(self, precisions: Sequence[str]) -> Mapping[str, str]:
        refused = {}
        for precision in precisions:
            sides = (PROBE_SIDE,) * 3
            try:
                build(self._torch, Product("square", precision, *sides, 0.0), self._device)()
                self._torch.cuda.synchronize()
            except (RuntimeError, ValueError, TypeError, AttributeError) as error:
                refused[precision] = str(error).strip().split("\n", maxsplit=1)[0]
        return refused

    def profile(self, product: Product) -> Profile:
        call = build(self._torch, product, self._device)
        call()  # not profiled: the first launch also chooses and compiles a kernel
        self._torch.cuda.synchronize()
        profiler = self._torch.profiler
        activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
        with warnings.catch_warnings():
            # Of a profiler that is used in cycles; this one is used once.
            warnings.filterwarnings("ignore", message=".*Profiler clears events")
            with profiler.profile(activities=activities, record_shapes=True) as recorded:
                for _ in range(PROFILED_LAUNCHES):
                    call()
                self._torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            recorded.export_chrome_trace(str(trace))
            return formats.read(trace)

    def run(self, product: Product) -> Sequence[Mark]:
        call = build(self._torch, product, self._device)
        launches = self._launches_per_chunk(call)
        queued = deque(self._chunk(call, launches) for _ in range(CHUNKS_QUEUED))
        marks: list[Mark] = []
        while queued:
            queued.popleft().synchronize()
            marks.append(Mark(time.monotonic(), float(launches * len(marks))))
            if marks[-1].at < marks[0].at + product.seconds:
                queued.append(self._chunk(call, launches))
        return marks

    def close(self) -> None:
        self._torch.cuda.empty_cache()

    def _chunk(self, call: Launch, launches: int) -> Any:
        """Queue some launches; returns the event after them."""
        for _ in range(launches):
            call()
        event = self._torch.cuda.Event(blocking=True)  # waits without a busy core
        event.record()
        return event

    def _launches_per_chunk(self, call: Launch) -> int:
        """The number of launches in a chunk, found by doubling it until the launches take long enough."""
        launches = 1
        while True:
            began = time.monotonic()
            self._chunk(call, launches).synchronize()
            seconds = time.monotonic() - began
            if seconds >= CHUNK_SECONDS / 2:
                return max(1, round(launches * CHUNK_SECONDS / seconds))
            launches *= 2


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415 - large and optional: loaded where products are really run
    except ImportError as error:
        raise ConfigError(f"torch is not installed: {install_command('validate')}") from error
    return torch
