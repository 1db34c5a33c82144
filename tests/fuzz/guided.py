"""Fuzzes ways in, guided by the lines that inputs reach.

`python -m tests.fuzz.guided TARGET[,...] [MINUTES [SEEDS [RUNS]]]` needs the fuzzer atheris (`pip install --group
fuzz`). It begins with the corpus and with SEEDS inputs of hypothesis, and ends after RUNS inputs, or at the first
finding, which it puts into the corpus. Each of several targets has a process of its own, one after the other.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path

import atheris
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.corpus_file import keep, kept

with atheris.instrument_imports(include=["ofu_exporter"]):
    from tests.fuzz.targets import TARGETS, FuzzTarget

LONGEST_BYTES = 65_536


def main(names: str, minutes: str = "30", seeds: str = "100", runs: str = "-1") -> None:
    logging.disable()
    for name in names.split(","):
        print(f"== {name}", file=sys.stderr, flush=True)
        child = os.fork()
        if not child:
            limits = [f"-max_total_time={round(60 * float(minutes))}", f"-runs={runs}"]
            fuzz(name, limits, int(seeds))
        if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(status)


def fuzz(name: str, limits: list[str], seeds: int) -> None:
    """Ends the process."""
    target = TARGETS[name]

    def look(data: bytes) -> None:
        try:
            target.check(data)
        except Exception:
            print(keep(name, data), flush=True)
            raise

    with tempfile.TemporaryDirectory() as folder:
        seed(target, Path(folder), seeds)
        for path in kept(name):
            (Path(folder) / path.name).write_bytes(path.read_bytes())
        longest = f"-max_len={LONGEST_BYTES}"
        atheris.Setup([sys.argv[0], *limits, longest, folder], look)
        atheris.Fuzz()


def seed(target: FuzzTarget, folder: Path, seeds: int) -> None:
    """Put inputs to begin with into a folder."""

    @settings(
        max_examples=seeds,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def draw(data: bytes) -> None:
        (folder / f"drawn-{len(list(folder.iterdir()))}").write_bytes(data)

    draw()


if __name__ == "__main__":
    main(*sys.argv[1:])
