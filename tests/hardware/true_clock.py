"""Compares what NVML says of the SM clock with cycles that the SMs count themselves, under products of known FLOPs.

    python -m tests.hardware.true_clock FILE SECONDS PRODUCTS [stand-in]

A tiny kernel between the products notes each SM's own cycle counter (`clock64`) and the time (`globaltimer`). Their
differences are the true mean clock, and the launches between two notes the true FLOPs: neither comes from NVML. FILE
gets a JSON line for each product: the tiles, the notes, and all windows and clock reads of NVML meanwhile
(`tests/hardware/gpm_log.py`), with all that might tell when that clock is wrong; `clock_error.py` finds what does.
Needs torch and cupy; with `stand-in` neither, but the driver's stand-in (`stand_in.py`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ofu_exporter.validation import Product, session
from ofu_exporter.validation.cuda import CudaMachine, build
from ofu_exporter.validation.session import tiling
from tests.doubles.nvml import SCENARIO_VARIABLE
from tests.hardware import stand_in
from tests.hardware.counters import pause

PRECISIONS = ("bf16", "fp16", "fp8")
KERNEL = r"""
extern "C" __global__ void note(long long* out, int place, int sms) {
  unsigned int sm; long long at;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(at));
  long long* row = out + 2 * ((long long)place * sms + sm);
  row[0] = clock64();
  row[1] = at;
}
"""
LOOK = ("sh", "-c", "sleep 1; nvidia-smi -q -d VOLTAGE")
"""NVML has no call for it."""
CHUNK_SECONDS = 0.05
MOST_NOTES = 4096


class NotedProduct:
    """One product that is launched again and again, with a note after each chunk of launches."""

    def __init__(self, product: Product) -> None:
        import cupy
        import torch

        self._torch, self._cupy = torch, cupy
        self._call = build(torch, product, "cuda:0")
        self._kernel = cupy.RawModule(code=KERNEL).get_function("note")
        self._sms = torch.cuda.get_device_properties(0).multi_processor_count
        self._notes = cupy.zeros((MOST_NOTES, self._sms, 2), dtype=cupy.int64)

    def run(self, seconds: float) -> tuple[list[float], Any, int]:
        """Host times of the notes, the notes (note, SM, cycles and ns), and launches in a chunk."""
        launches = self._launches_per_chunk()
        queued = deque(self._chunk(launches, place) for place in range(2))
        times: list[float] = []
        while queued:
            queued.popleft().synchronize()
            times.append(time.monotonic())
            place = len(times) + len(queued)
            if times[-1] < times[0] + seconds and place < MOST_NOTES:
                queued.append(self._chunk(launches, place))
        return times, self._notes[: len(times)].get(), launches

    def _chunk(self, launches: int, place: int) -> Any:
        for _ in range(launches):
            self._call()
        numbers = (self._cupy.int32(place), self._cupy.int32(self._sms))
        self._kernel((4 * self._sms,), (32,), (self._notes, *numbers))
        event = self._torch.cuda.Event(blocking=True)
        event.record()
        return event

    def _launches_per_chunk(self) -> int:
        launches = 1
        while True:
            began = time.monotonic()
            self._chunk(launches, 0).synchronize()
            if (took := time.monotonic() - began) >= CHUNK_SECONDS / 2:
                return max(1, round(launches * CHUNK_SECONDS / took))
            launches *= 2


def measured(
    machine: CudaMachine | stand_in.Machine,
    running: NotedProduct | stand_in.NotedProduct,
    product: Product,
    log: Path,
) -> dict[str, Any]:
    """One product, and what NVML said meanwhile."""
    tiles = tiling(machine.profile(product))
    looks = subprocess.Popen(LOOK, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    times, notes, launches = running.run(product.seconds)
    voltage = re.search(r"Graphics\s*: ([\d.]+) mV", looks.communicate()[0])
    lines = log.read_text().split("\n")[:-1]  # the last may be half of one
    windows = [
        w for w in map(json.loads, lines) if times[0] <= w["start"] and w["end"] <= times[-1]
    ]
    noted = [  # an SM that no block of a note ran on has zeros in it
        [[int(c), int(t)] for c, t in row[:: max(1, len(row) // 4)]] for row in notes
    ]
    return {
        "product": [product.precision, product.m, product.n, product.k],
        "kernels": tiles.kernels,
        "tile_overhead": tiles.overhead_ratio,
        "bound": tiles.bound,
        "millivolts": float(voltage[1]) if voltage else None,
        "flops_per_chunk": launches * product.flops,
        "times": times,
        "notes": noted,
        "windows": [
            {
                "start": w["start"],
                "end": w["end"],
                "tensor": w["metrics"]["5"],
                "clocks_mhz": w["clocks_mhz"],
                "reasons": w["clock_reasons"],
                "power_watts": w["power_watts"],
                "cycles": {id_: w["metrics"].get(id_) for id_ in ("248", "250")},
                "beside": w["beside"],
            }
            for w in windows
        ],
    }


def main(args: list[str]) -> None:
    if len(args) not in (3, 4):
        raise SystemExit(__doc__)
    machine: CudaMachine | stand_in.Machine
    noted: Callable[[Product], NotedProduct | stand_in.NotedProduct]
    if args[3:] == ["stand-in"]:
        scenario = Path(os.environ[SCENARIO_VARIABLE])
        machine, noted = stand_in.Machine(), partial(stand_in.NotedProduct, scenario=scenario)
    else:
        machine, noted = CudaMachine(0), NotedProduct
    size = session.Size(int(args[2]), 0, (), float(args[1]), 0.0)
    log = Path(f"{args[0]}.gpm")
    logs = [
        sys.executable,
        "-m",
        "tests.hardware.gpm_log",
        str(log),
        "3600",
        "0.25",
        "50",
        "beside",
    ]
    with Path(args[0]).open("w", encoding="utf-8") as out, subprocess.Popen(logs) as logging:
        while not log.exists() and logging.poll() is None:
            pause(0.05)
        try:
            for product in session.products(size, PRECISIONS, seed=7):
                if (code := logging.poll()) is not None:
                    raise SystemExit(f"gpm_log ended with code {code}: nothing of NVML is written")
                row = measured(machine, noted(product), product, log)
                out.write(json.dumps(row) + "\n")
                out.flush()
        finally:
            logging.kill()


if __name__ == "__main__":
    main(sys.argv[1:])
