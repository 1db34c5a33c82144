"""Runs products with torch on a CUDA GPU.

Launches are queued in chunks, of which two are always waiting, so that the GPU never waits for Python. A CUDA event
marks a chunk's end, and its time is read on the sampler's clock.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ofu_exporter.errors import ConfigError, SourceError
from ofu_exporter.hardware import profiles
from ofu_exporter.hardware.profiles import Profile
from ofu_exporter.support.extras import install_command
from ofu_exporter.validation import Mark, Product
from ofu_exporter.validation.torch_products import Launch, build
from ofu_exporter.values.reasons import Reason

CHUNK_SECONDS = 0.05
CHUNKS_QUEUED = 2
PROFILED_LAUNCHES = 3
PROBE_SIDE = 512
"""Sides of the test product that shows whether a precision can be run."""


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
            return profiles.read(trace)

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
