"""Looks for inputs that the agent does not stand: `python -m tests.fuzz [--minutes 30] [--atheris] [TARGET...]`.

The minutes are shared by the targets. What is found is made as small as can be, put into tests/fuzz/corpus and printed
with its traceback; the target's turn is over then, and the exit code is 1. From then on the suite replays that input.

With `--atheris` (`pip install atheris`) the bytes are changed by Google's fuzzer, which sees which lines they reach,
from the corpus and from a hundred inputs on that hypothesis draws. It stops at the first finding, and takes one target.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.fuzz.corpus_file import FOLDER, keep
from tests.fuzz.targets import TARGETS, FuzzTarget

EXAMPLES = 500
"""Inputs of one round; every round has another seed."""
SEEDS = 100
LONGEST_BYTES = 65_536


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--atheris", action="store_true")
    parser.add_argument("names", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    asked = parser.parse_args()
    logging.disable()
    names = asked.names or list(TARGETS)
    seconds = 60 * asked.minutes / len(names)
    if asked.atheris:
        return guided(names[0], seconds)
    return max(search(name, seconds) for name in names)


def search(name: str, seconds: float) -> int:
    """Let hypothesis look for so long; 1 when there is a finding."""
    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        found, count = one_round(TARGETS[name], time.monotonic_ns(), until)
        tried += count
        if found is not None:
            print(f"{name}: {keep(name, found)}, after {tried} inputs", flush=True)
            return 1
    print(f"{name}: nothing in {tried} inputs", flush=True)
    return 0


def one_round(target: FuzzTarget, seed: int, until: float) -> tuple[bytes | None, int]:
    """The smallest input that the agent does not stand, if there is one, and how many were tried."""
    failed: bytes | None = None
    tried = 0

    @seeded(seed)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(target.inputs)
    def look(data: bytes) -> None:
        nonlocal failed, tried
        if failed is None and time.monotonic() > until:
            return
        tried += 1
        try:
            target.check(data)
        except BaseException:
            failed = data  # the last is the smallest: hypothesis ends by it
            raise

    try:
        look()
    except Exception:  # noqa: BLE001 - every one is a finding
        traceback.print_exc()
    return failed, tried


def guided(name: str, seconds: float) -> int:
    """Let atheris look for so long. It ends the process itself."""
    import atheris

    target, folder = TARGETS[name], FOLDER / name
    folder.mkdir(exist_ok=True)

    def look(data: bytes) -> None:
        try:
            target.check(data)
        except Exception:
            print(keep(name, data), flush=True)
            raise

    atheris.instrument_all()
    options = [f"-max_total_time={round(seconds)}", f"-max_len={LONGEST_BYTES}"]
    atheris.Setup([sys.argv[0], *options, str(seeds(target)), str(folder)], look)
    atheris.Fuzz()
    return 0


def seeds(target: FuzzTarget) -> Path:
    """A folder of inputs to begin with."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ofu-fuzz-"))

    @settings(max_examples=SEEDS, database=None, phases=[Phase.generate], deadline=None)
    @given(target.inputs)
    def draw(data: bytes) -> None:
        (folder / str(len(list(folder.iterdir())))).write_bytes(data)

    draw()
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
