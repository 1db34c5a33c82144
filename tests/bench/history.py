"""What the history of the paper's fleet costs: `python -m tests.bench.history`. Equal seeds must make equal bytes.

`tests.simulated_history` writes two weeks of it twice, each time in a process with another seed of Python's hashes. It
ends with an error where the files differ.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from ofu_exporter.fleet.simulation.spec import SHIPPED
from tests.helpers.agent import bare_environment

HEADER = "| samples | GB | seconds | CPU seconds | MiB at most |\n|---|---|---|---|---|"
MIB = 1 << 20
FLEET = SHIPPED / "paper.yaml"
RECORDED = {
    "start": "2025-08-27T00:00:00Z",
    "history": {"raw": [{"nodes": ["h100-1..2"], "at": "7d", "lasts": "2h"}]},
}
"""What is written of the fleet, beside all recorded series."""


def digest(folder: Path) -> str:
    """One number for the names and the bytes of all files."""
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode())
        with path.open("rb") as file:
            while chunk := file.read(MIB):
                found.update(chunk)
    return found.hexdigest()


def written(spec: Path, folder: Path, hash_seed: int) -> str:
    """Write the history into a folder; gives a row of the table."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.simulated_history", str(spec), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=bare_environment({"PYTHONHASHSEED": str(hash_seed)}),
    )
    assert process.stdout is not None
    *_, last = process.stdout
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    if status:
        sys.exit(f"the command ended with {status}")
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
    samples = int(last.split()[0])
    cpu = used.ru_utime + used.ru_stime
    return f"| {samples:,} | {size:.1f} | {seconds:.0f} | {cpu:.0f} | {used.ru_maxrss / 1024:.0f} |"


def main() -> None:
    shipped = yaml.safe_load(FLEET.read_text())
    print(HEADER)
    digests = set()
    for hash_seed in (1, 2):
        with tempfile.TemporaryDirectory() as scratch:
            spec, folder = Path(scratch) / "fleet.yaml", Path(scratch) / "history"
            spec.write_text(yaml.safe_dump({**shipped, **RECORDED}))
            print(written(spec, folder, hash_seed), flush=True)
            digests.add(digest(folder))
    if len(digests) > 1:
        sys.exit("the two histories differ")


if __name__ == "__main__":
    main()
