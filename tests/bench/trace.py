"""What reading a large PyTorch trace costs: `python -m tests.bench.trace [LAUNCHES]` writes one and reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.helpers.agent import COMMAND
from tests.traces.formats.tracing import ADD, FLASH, H100, NVJET, kernel, launch, operator

GEMM_EVERY = 4
"""Of this many launches one is a product; the others are what stands between products."""


def write(path: Path, launches: int) -> None:
    """Each launch with its operator and its call, as Kineto lays them out."""
    kinds = {"Input type": ["c10::BFloat16", "c10::BFloat16"], "Concrete Inputs": ["", ""]}
    with path.open("w") as file:
        file.write(f'{{"deviceProperties": [{{"id": 0, "name": "{H100}"}}], "traceEvents": [\n')
        for number in range(1, launches + 1):
            product = number % GEMM_EVERY == 0
            dims = [8192, 4096], [4096, 4000 + number % 7]
            name = ADD if not product else FLASH if number % 3 == 0 else NVJET
            events = (
                operator("aten::mm" if product else "aten::add", number, *dims, **kinds),
                launch(number, number),
                kernel(name, number, number),
            )
            file.writelines(json.dumps(event, indent=1) + ",\n" for event in events)
        file.write('{"ph": "i", "name": "end"}]}\n')


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        write(path, launches)
        began = time.monotonic()
        done = subprocess.Popen([*COMMAND, "profile", str(path)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(done.pid, 0)
        seconds = time.monotonic() - began
        print(
            f"{path.stat().st_size / 1e6:.0f} MB, {launches} launches: {seconds:.1f} s, "
            f"{usage.ru_maxrss / 1024:.0f} MiB at most, exit code {os.waitstatus_to_exitcode(status)}"
        )


if __name__ == "__main__":
    main()
