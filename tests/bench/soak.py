"""Lets a node of eight GPUs live through a day of random faults: `python -m tests.bench.soak [HOURS] [SEED]`.

Time is accelerated; the checks of tests/helpers/soak.py run after every window, and the first that does
not hold ends the run. Memory is the resident set of this process, the stand-in for the driver included.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.doubles.nvml import SCENARIO_VARIABLE, load
from tests.helpers.soak import DIVIDED, GPUS, SPARED, Soak

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_mib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 2**20


def main(hours: int = 24, seed: int = 1) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[SCENARIO_VARIABLE] = str(Path(folder) / "scenario")
        soak = Soak(Path(folder), load(), seed)
        print("| simulated hours | faults | windows checked | resident MiB |")
        print("|---|---|---|---|")
        for hour in range(1, hours + 1):
            soak.run(3600.0)
            if hour in (1, 2, 4, 8, 16) or hour == hours:
                faults = sum(soak.happened.values())
                row = f"{hour} | {faults} | {soak.checked_windows} | {resident_mib():.1f}"
                print(f"| {row} |", flush=True)
        print("\n| GPU | coverage |\n|---|---|")
        for gpu in range(GPUS):
            if gpu != DIVIDED:
                note = " (spared)" if gpu == SPARED else ""
                print(f"| {gpu}{note} | {soak.coverage(gpu):.3f} |")
        soak.close()
    print("\n| fault | times |\n|---|---|")
    for name, count in sorted(soak.happened.items()):
        print(f"| {name} | {count} |")
    print(f"| the clock was set | {soak.clock_steps} |")
    print(f"| seconds of real time | {time.monotonic() - began:.0f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
