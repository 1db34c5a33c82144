"""Runs loads on a GPU whose activity is known before it is measured, each for some seconds.

    python -m tests.hardware.known_loads FILE SECONDS [SCALE]

Writes one JSON line for each load: its name, when it began and ended on the monotonic clock, and what it did in that
time: FLOPs, bytes, the share of the time in which it kept the engine busy, the share of the SMs that it used. The truth
comes from counting launches between CUDA events, never from a counter of the GPU. Needs torch and cupy.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ofu_exporter.validation import Product
from ofu_exporter.validation.cuda import CudaMachine, build

Truth = Mapping[str, float]

KERNELS = r"""
extern "C" __global__ void spin(long long cycles, int* out) {
  long long begin = clock64();
  while (clock64() - begin < cycles) {}
  if (cycles < 0) *out = 1;
}
#define PIPE(NAME, TYPE, STEP)                                        \
extern "C" __global__ void NAME(int rounds, TYPE* out) {              \
  TYPE a = (TYPE)threadIdx.x, b = (TYPE)1, c0 = (TYPE)2, c1 = (TYPE)3, c2 = (TYPE)5, c3 = (TYPE)7; \
  for (int i = 0; i < rounds; ++i) {                                  \
    _Pragma("unroll")                                                 \
    for (int j = 0; j < 16; ++j) { STEP(c0) STEP(c1) STEP(c2) STEP(c3) } \
  }                                                                   \
  if (rounds < 0) *out = c0 + c1 + c2 + c3;                           \
}
#define FLOAT(c) c = a * c + b;
#define INTEGER(c) c = (a * c) ^ (b + i);
PIPE(fp32, float, FLOAT)
PIPE(fp64, double, FLOAT)
PIPE(integer, int, INTEGER)
"""
STEPS_A_ROUND = 64
THREADS = 1024
PIECE_SECONDS = 0.05
"""Length of the pieces of work between two looks at the time."""
COPY_BYTES = 2 << 30
HOST_BYTES = 256 << 20


class Loads:
    """The loads on the first GPU."""

    def __init__(self, seconds: float, scale: float) -> None:
        import cupy
        import torch

        self._torch, self._cupy = torch, cupy
        self._seconds = seconds
        self._scale = scale
        self._machine = CudaMachine(0)
        self._module = cupy.RawModule(code=KERNELS)
        self._sms = torch.cuda.get_device_properties(0).multi_processor_count
        self._out = cupy.zeros(16, dtype=cupy.float64)

    def all(self) -> Iterator[tuple[str, Callable[[], Truth]]]:
        yield "idle", self._idle
        for precision in ("bf16", "fp16", "tf32", "fp8", "int8", "fp64"):
            yield f"gemm {precision}", partial(self._gemm, precision, 8192, 8192, 8192)
        yield "gemm bf16 of zeros", partial(self._gemm, "bf16", 8192, 8192, 8192, zeros=True)
        yield "gemm bf16 small", partial(self._gemm, "bf16", 1024, 1024, 1024)
        yield "gemm bf16 half of the time", partial(self._duty, 0.5)
        yield "gemm bf16 a fifth of the time", partial(self._duty, 0.2)
        for blocks in (1, self._sms // 4, self._sms // 2, self._sms):
            yield f"one block on each of {blocks} SMs", partial(self._spin, blocks)
        yield "copy in memory", self._copy
        yield "elementwise", self._elementwise
        yield "host to device", partial(self._host, to_device=True)
        yield "device to host", partial(self._host, to_device=False)
        for pipe, flops in (("fp32", 2), ("fp64", 2), ("integer", 0)):
            yield f"pipe {pipe}", partial(self._pipe, pipe, flops)
        yield "gemm and copy in turns", self._mixed

    def _idle(self) -> Truth:
        time.sleep(self._seconds)
        return {"busy_ratio": 0.0}

    def _gemm(self, precision: str, m: int, n: int, k: int, zeros: bool = False) -> Truth:
        m, n, k = (int(side * self._scale) for side in (m, n, k))
        product = Product("clock", precision, m, n, k, self._seconds, zeros)
        marks = self._machine.run(product)
        launches = marks[-1].launches - marks[0].launches
        return {
            "flops": launches * product.flops,
            "began": marks[0].at,
            "ended": marks[-1].at,
            "launches": launches,
        }

    def _duty(self, share: float) -> Truth:
        """Products for a share of the time; the truth is what CUDA events measured between first and last launch."""
        call = build(self._torch, self._product("bf16"), "cuda:0")
        call()
        self._torch.cuda.synchronize()
        busy, began = 0.0, time.monotonic()
        while time.monotonic() < began + self._seconds:
            busy += (piece := self._piece(call))
            time.sleep(piece * (1 / share - 1))
        return {"busy_ratio": busy / (time.monotonic() - began)}

    def _product(self, precision: str) -> Product:
        side = int(4096 * self._scale)
        return Product("clock", precision, side, side, side, self._seconds)

    def _piece(self, call: Callable[[], object]) -> float:
        """Some launches; returns the seconds between the events around them."""
        first, last = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(100):
            call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000

    def _spin(self, blocks: int) -> Truth:
        kernel = self._module.get_function("spin")
        cycles = int(1e9 * PIECE_SECONDS)
        return {
            "sm_ratio": blocks / self._sms,
            "busy_ratio": 1.0,
            **self._queued(lambda: kernel((blocks,), (128,), (cycles, self._out)), 0, 1),
        }

    def _copy(self) -> Truth:
        size = int(COPY_BYTES * self._scale**2)
        source = self._torch.empty(size, dtype=self._torch.uint8, device="cuda")
        target = self._torch.empty_like(source)
        return self._queued(lambda: target.copy_(source), 2 * size, 20)

    def _elementwise(self) -> Truth:
        values = self._torch.randn(int((COPY_BYTES >> 2) * self._scale**2), device="cuda")
        return self._queued(lambda: values.mul_(1.0000001), 8 * values.numel(), 20)

    def _host(self, to_device: bool) -> Truth:
        size = int(HOST_BYTES * self._scale**2)
        host = self._torch.empty(size, dtype=self._torch.uint8, pin_memory=True)
        card = self._torch.empty(size, dtype=self._torch.uint8, device="cuda")
        target, source = (card, host) if to_device else (host, card)
        return self._queued(lambda: target.copy_(source, non_blocking=True), size, 5)

    def _pipe(self, pipe: str, flops: int) -> Truth:
        """Two blocks of 1024 threads on every SM, which do nothing but this kind of instruction."""
        kernel = self._module.get_function(pipe)
        rounds = int((4000 if pipe == "fp64" else 8000) * self._scale)
        blocks = 2 * self._sms
        instructions = blocks * THREADS * rounds * STEPS_A_ROUND
        truth = self._queued(
            lambda: kernel((blocks,), (THREADS,), (self._cupy.int32(rounds), self._out)), 0, 4
        )
        done = instructions * truth["launches"]
        return {**truth, "thread_instructions": done, "flops": flops * done}

    def _mixed(self) -> Truth:
        """A product, then a copy of about the same length, on one stream: memory-bound for a known share."""
        call = build(self._torch, self._product("bf16"), "cuda:0")
        source = self._torch.empty(int(COPY_BYTES * self._scale**2) >> 2, device="cuda")
        target = self._torch.empty_like(source)
        self._piece(call)
        product, copy = 0.0, 0.0
        began = time.monotonic()
        while time.monotonic() < began + self._seconds:
            product += self._piece(call)
            copy += self._piece(lambda: target.copy_(source))
        spent = time.monotonic() - began
        return {"product_ratio": product / spent, "copy_ratio": copy / spent}

    def _queued(self, launch: Callable[[], object], bytes_: float, launches: int) -> Truth:
        """Launches in chunks of which two are always waiting, so that the GPU never waits for Python."""
        events = [self._chunk(launch, launches) for _ in range(2)]
        events.pop(0).synchronize()
        began, done = time.monotonic(), 0
        ended = began
        while ended < began + self._seconds:
            events.append(self._chunk(launch, launches))
            events.pop(0).synchronize()
            ended, done = time.monotonic(), done + launches
        self._torch.cuda.synchronize()
        return {"bytes": bytes_ * done, "launches": done, "began": began, "ended": ended}

    def _chunk(self, launch: Callable[[], object], launches: int) -> Any:
        for _ in range(launches):
            launch()
        event = self._torch.cuda.Event(blocking=True)
        event.record()
        return event


def main(args: list[str]) -> None:
    if len(args) not in (2, 3):
        raise SystemExit(__doc__)
    loads = Loads(float(args[1]), float(args[2]) if len(args) > 2 else 1.0)
    with Path(args[0]).open("w", encoding="utf-8") as out:
        for name, run in loads.all():
            line: dict[str, Any] = {"name": name, "began": time.monotonic()}
            try:
                truth = run()
            except Exception as error:  # noqa: BLE001 - a load that cannot run here must not cost the others
                line["failed"] = f"{type(error).__name__}: {error}"
            else:
                line |= {"ended": time.monotonic(), **truth}
            out.write(json.dumps(line) + "\n")
            out.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
